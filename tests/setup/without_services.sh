# Sourced by what installs packages. Fresh installs of daemons start them (guacd on 4822, xrdp on 3389,
# Prometheus on 9090); the tests start their own.
without_services() {
    local policy=/usr/sbin/policy-rc.d rc=0
    if [ -e "$policy" ]; then "$@"; return; fi
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    "$@" || rc=$?
    rm -f "$policy"
    return "$rc"
}
