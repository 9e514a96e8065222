#!/usr/bin/env bash
# Installs what the tests of the PostgreSQL store start by themselves: PostgreSQL and pgbouncer.
# No server of the system is made or started on the way. Called by tests/run; quick when nothing
# is missing.
#
# Exit: 0 all there; 10 it cannot be had here (the last line says why); other: a fault of this script.
set -euo pipefail

missing=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql-15)
[ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
command -v openssl >/dev/null || missing+=(openssl)
command -v setpriv >/dev/null || missing+=(util-linux)
[ ${#missing[@]} -gt 0 ] || exit 0

cannot() { echo "CANNOT TEST THE POSTGRESQL STORE: $1"; exit 10; }

[ "$(id -u)" = 0 ] || cannot "not root; missing: ${missing[*]}"
command -v apt-get >/dev/null || cannot "no apt-get; missing: ${missing[*]}"

# Fresh installs of daemons start them; the tests start their own. Nor is a cluster made for the
# machine: what is not there cannot be started at the next boot either.
policy=/usr/sbin/policy-rc.d ours=
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    ours=1
fi
clusters=/etc/postgresql-common/createcluster.d/sessionguard-tests.conf
mkdir -p "$(dirname "$clusters")"
echo 'create_main_cluster = false' >"$clusters"
trap '[ -z "$ours" ] || rm -f "$policy"; rm -f "$clusters"' EXIT

echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
apt() { apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1; }
apt update || echo "apt-get update reported faults; going on" >&2
# The mirror's name stays on this machine: output gets copied into reports.
apt install -y --no-install-recommends "${missing[@]}" || {
    tail -n 15 "$log" | sed -E 's#https?://[^ ]+#(mirror)#g'
    cannot "apt-get install failed for: ${missing[*]}"
}
if [ -d /run/systemd/system ]; then
    for p in "${missing[@]}"; do
        [ "$p" != pgbouncer ] || systemctl disable --quiet pgbouncer.service
    done
fi
