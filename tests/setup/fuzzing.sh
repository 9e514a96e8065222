#!/usr/bin/env bash
# Sees to what tests/fuzz/run needs: a nightly compiler and cargo-fuzz, which is
# installed beside the other test tools where it is not on the path yet.
# Called by tests/fuzz/run; quick when nothing is missing.
#
# Exit: 0 all there; 10 it cannot be had here (the last line says what).
set -u
cd "$(dirname "$0")/../.." || exit 1

tools=$PWD/tests/.cache/tools
export PATH=$tools/bin:$PATH

if ! cargo +nightly --version >/dev/null 2>&1; then
  if ! command -v rustup >/dev/null; then
    echo "CANNOT FUZZ: no nightly compiler, and no rustup to install one with"
    exit 10
  fi
  echo "installing a nightly compiler"
  if ! rustup toolchain install nightly --profile minimal --no-self-update; then
    echo "CANNOT FUZZ: rustup toolchain install nightly failed"
    exit 10
  fi
fi
if ! command -v c++ >/dev/null; then
  echo "CANNOT FUZZ: no c++, which libFuzzer is built with (Debian: g++)"
  exit 10
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "installing cargo-fuzz"
  if ! CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --root "$tools" cargo-fuzz; then
    echo "CANNOT FUZZ: cargo install cargo-fuzz failed"
    exit 10
  fi
fi
