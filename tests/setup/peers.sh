#!/usr/bin/env bash
# Installs the relays that sessionguard is measured beside: HAProxy, and nginx with its stream
# module. Neither is started, now or at the next boot. Called by tests/bench/relay/run and by
# tests/run; quick when nothing is missing.
#
# Exit: 0 all there; 10 they cannot be had here (the last line says why); other: a fault of this script.
set -euo pipefail

missing=()
[ -x /usr/sbin/haproxy ] || missing+=(haproxy)
[ -x /usr/sbin/nginx ] || missing+=(nginx)
[ -e /usr/lib/nginx/modules/ngx_stream_module.so ] || missing+=(libnginx-mod-stream)
command -v taskset >/dev/null || missing+=(util-linux)
[ ${#missing[@]} -gt 0 ] || exit 0

cannot() { echo "CANNOT COMPARE WITH OTHER RELAYS: $1"; exit 10; }

[ "$(id -u)" = 0 ] || cannot "not root; missing: ${missing[*]}"
command -v apt-get >/dev/null || cannot "no apt-get; missing: ${missing[*]}"

policy=/usr/sbin/policy-rc.d ours=
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    ours=1
fi
trap '[ -z "$ours" ] || rm -f "$policy"' EXIT

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
        case $p in haproxy | nginx) systemctl disable --quiet "$p.service" ;; esac
    done
fi
