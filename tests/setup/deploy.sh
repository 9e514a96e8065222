#!/usr/bin/env bash
# Installs what tests/deploy needs: a venv, kubectl or kustomize, Helm, systemd's own tools, strace, promtool, logrotate,
# Grafana's types, and ip, unshare and nsenter. What cannot be had is named, and the tests that want it are skipped. Called
# by tests/deploy/run; quick when nothing is missing.
#
# Exit: 0 the tests can run, in part at least; 10 none can; other: a fault of this script.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
venv=$repo/tests/.cache/deploy-venv
tools=$repo/tests/.cache/tools/bin
requirements=$repo/tests/setup/deploy-requirements.txt
log=$repo/tests/.cache/deploy-install.log
# The modules are built with the machine's own Go.
helm=helm.sh/helm/v3/cmd/helm@v3.21.4
kustomize=sigs.k8s.io/kustomize/kustomize/v5@v5.7.1

mkdir -p "$tools"
exec 9>"$repo/tests/.cache/deploy-install.lock"
flock 9
: >"$log"

cannot() { echo "CANNOT: $1"; }

# What a mirror is called stays on this machine: output gets copied into reports.
tail_of_log() { tail -n 15 "$log" | sed -E 's#https?://[^ ]+#(mirror)#g'; }

. "$repo/tests/setup/without_services.sh"

missing=()
have() { command -v "$1" >/dev/null || missing+=("$2"); }
have systemd-analyze systemd
have systemd-socket-activate systemd
have strace strace
have ip iproute2
have unshare util-linux
have openssl openssl
have promtool prometheus
have logrotate logrotate
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing: ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        apt() { apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1; }
        apt update || echo "apt-get update reported faults; going on" >&2
        without_services apt install -y --no-install-recommends "${missing[@]}" \
            || { tail_of_log; cannot "apt-get install failed for: ${missing[*]}"; }
    else
        cannot "not root, or no apt-get; missing: ${missing[*]}"
    fi
fi

# Debian's own kubectl is too old for components, so it is kustomize itself where there is no other.
build() { # NAME MODULE
    [ -x "$tools/$1" ] && return
    if ! command -v go >/dev/null; then
        cannot "no $1 and no Go to build it with"
    else
        echo "building $1"
        GOBIN=$tools go install "$2" >>"$log" 2>&1 || { tail_of_log; cannot "$1 could not be built"; }
    fi
}
command -v kubectl >/dev/null || command -v kustomize >/dev/null || build kustomize "$kustomize"
command -v helm >/dev/null || build helm "$helm"
grafana=$repo/tests/deploy/grafana
if ! command -v go >/dev/null; then
    cannot "no Go to build what reads a dashboard as Grafana does"
elif [ ! "$tools/dashboard" -nt "$grafana/main.go" ] || [ ! "$tools/dashboard" -nt "$grafana/go.sum" ]; then
    echo "building what reads a dashboard as Grafana does"
    go build -C "$grafana" -o "$tools/dashboard" . >>"$log" 2>&1 || { tail_of_log; cannot "tests/deploy/grafana could not be built"; }
fi

stamp=$venv/.requirements
if ! cmp -s "$requirements" "$stamp"; then
    echo "making $venv"
    rm -rf "$venv"
    if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --disable-pip-version-check -r "$requirements"; } >>"$log" 2>&1; then
        tail_of_log
        cannot "the packages of $(basename "$requirements") could not be installed"
        exit 10
    fi
    cp "$requirements" "$stamp"
fi
