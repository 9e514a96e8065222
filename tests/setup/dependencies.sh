#!/usr/bin/env bash
# Holds the dependencies to .deny.toml: licences, banned crates, sources.
# Called by .ci/run. Uses cargo-deny, installed beside the other test tools
# where it is not on the path yet.
set -eu
cd "$(dirname "$0")/../.."

if ! cargo deny --version >/dev/null 2>&1; then
  tools=$PWD/tests/.cache/tools
  export PATH="$tools/bin:$PATH"
  [ -x "$tools/bin/cargo-deny" ] || cargo install --quiet --locked --root "$tools" cargo-deny
fi
cargo deny --config .deny.toml check licenses bans sources
