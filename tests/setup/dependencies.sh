#!/usr/bin/env bash
# Holds the dependencies to .deny.toml: licences, banned crates, sources.
# Called by .ci/run. Uses cargo-deny, installed beside the other test tools
# where it is not on the path yet.
set -eu
cd "$(dirname "$0")/../.."

if ! cargo deny --version >/dev/null 2>&1; then
  tools=$PWD/tests/.cache/tools
  export PATH="$tools/bin:$PATH"
  # Unoptimized it takes four seconds longer to check, and two minutes less to build.
  [ -x "$tools/bin/cargo-deny" ] ||
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --root "$tools" cargo-deny
fi
cargo deny --config .deny.toml check licenses bans sources
