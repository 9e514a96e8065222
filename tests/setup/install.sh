#!/usr/bin/env bash
# Installs what tests/real needs: guacd 1.3.0, xrdp, TigerVNC, OpenSSH, promtool, Chromium, and what others
# wrote in Python (a venv), JavaScript (npm) and Java (Maven). Called by tests/real/run; safe to run again, quick when nothing is missing.
#
# Exit: 0 all there; 10 it cannot be had here (the last lines say what and why); other: a fault of
# this script.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
venv=$repo/tests/.cache/venv
requirements=$repo/tests/setup/requirements.txt
lite=$repo/tests/.cache/guacamole-lite
common=$repo/tests/.cache/guacamole-common
axe=$repo/tests/.cache/axe-core
foreign=$repo/tests/real/foreign
log=$repo/tests/.cache/install.log

# guacd left Debian after 11; these come from there. Everything else is Debian 12's own.
guacd_packages=(guacd libguac-client-rdp0 libguac-client-vnc0 libguac-client-ssh0)
# python3-venv serves machines whose python3 is Debian's own, where venv is a package apart.
packages=(xrdp tigervnc-standalone-server xterm x11-utils x11-xserver-utils xauth xfonts-base fonts-dejavu-core
          iproute2 procps util-linux passwd python3-venv openssh-server openssh-client
          chromium chromium-driver  # the page of the API is looked at with it
          mono-mcs mono-runtime)  # the C# inside of the Windows agent is compiled
# By the command they bring: Node and Java are often there from elsewhere.
commands=(node:nodejs npm:npm javac:default-jdk-headless mvn:maven openssl:openssl promtool:prometheus)
# Versions of guacamole-common, the library inside Guacamole.
guacamole_common=(1.3.0 1.6.0)

# Says why and ends. The mirror's name stays on this machine: output gets copied into reports.
cannot() {
    echo "CANNOT INSTALL the real components: $1"
    [ -s "$log" ] && { echo "--- end of $log:"; tail -n 15 "$log" | sed -E 's#https?://[^ ]+#(mirror)#g'; }
    echo "CANNOT: $1"
    exit 10
}

# A second run waits for the first: apt takes one caller at a time and a venv half made helps nobody.
mkdir -p "$repo/tests/.cache"
exec 9>"$repo/tests/.cache/install.lock"
flock 9
: >"$log"

installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; }

missing=()
for p in "${guacd_packages[@]}" "${packages[@]}"; do installed "$p" || missing+=("$p"); done
for c in "${commands[@]}"; do command -v "${c%:*}" >/dev/null || missing+=("${c#*:}"); done

apt() { apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1; }

# Debian 11 beside Debian 12, at a priority below everything installed or offered by 12: only what 12
# lacks (guacd and the two old libraries it is linked with) can ever come from it.
add_bullseye() {
    local site
    site=$(apt-get indextargets --format '$(LABEL)|$(CODENAME)|$(SITE)' 'Created-By: Packages' \
           | awk -F'|' '$1 == "Debian" && $2 == "bookworm" { print $3; exit }')
    [ -n "$site" ] || cannot "apt's own sources name no Debian 12 (bookworm) mirror"
    cat >/etc/apt/preferences.d/sessionguard-bullseye <<'PIN'
Package: *
Pin: release n=bullseye
Pin-Priority: 100
PIN
    cat >/etc/apt/sources.list.d/sessionguard-bullseye.sources <<SOURCE
Types: deb
URIs: $site
Suites: bullseye
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCE
}

. "$repo/tests/setup/without_services.sh"

if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}"
    . /etc/os-release
    [ "${VERSION_CODENAME:-}" = bookworm ] || cannot "made for Debian 12, this is ${PRETTY_NAME:-unknown}; missing: ${missing[*]}"
    [ "$(id -u)" = 0 ] || cannot "not root; missing: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # An unrelated source of the machine may be broken: what counts is whether the install works.
    apt update || echo "apt-get update reported faults (see $log); going on" >&2
    for p in "${guacd_packages[@]}"; do
        installed "$p" || { add_bullseye; apt update || true; break; }
    done
    without_services apt install -y --no-install-recommends "${missing[@]}" \
        || cannot "apt-get install failed for: ${missing[*]}"
fi

# The venv is made again whenever the pinned list changed or it was left unfinished.
stamp=$venv/.requirements
if ! cmp -s "$requirements" "$stamp"; then
    echo "making $venv"
    rm -rf "$venv"
    python3 -m venv "$venv" >>"$log" 2>&1 || cannot "python3 -m venv failed"
    "$venv/bin/pip" install --disable-pip-version-check -r "$requirements" >>"$log" 2>&1 \
        || cannot "pip install failed"
    cp "$requirements" "$stamp"
fi

# So are the others; both lists pin every version.
for made in "$lite" "$axe"; do
    pinned=$foreign/$(basename "$made")
    stamp=$made/.lock
    if ! cmp -s "$pinned/package-lock.json" "$stamp"; then
        echo "making $made"
        rm -rf "$made"
        mkdir -p "$made"
        cp "$pinned"/package{,-lock}.json "$made"
        (cd "$made" && npm ci --ignore-scripts --no-audit --no-fund) >>"$log" 2>&1 || cannot "npm ci failed"
        cp "$made/package-lock.json" "$stamp"
    fi
done
stamp=$common/.pom
if ! cmp -s "$foreign/guacamole-common/pom.xml" "$stamp"; then
    echo "making $common"
    rm -rf "$common"
    for version in "${guacamole_common[@]}"; do
        mvn -q -B -f "$foreign/guacamole-common/pom.xml" -Dguacamole="$version" dependency:copy-dependencies \
            -DincludeScope=runtime -DoutputDirectory="$common/$version" >>"$log" 2>&1 || cannot "mvn failed"
    done
    cp "$foreign/guacamole-common/pom.xml" "$stamp"
fi
echo "real components: all installed"
