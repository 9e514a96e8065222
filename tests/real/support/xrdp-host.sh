#!/bin/bash
# Runs one xrdp host; started by xrdp.py inside a mount and PID namespace of its own.
# Arguments: directory holding sesman.ini, xrdp.ini and startwm.sh of this host.
# xrdp knows one fixed path for its files, hence the namespace: here its own are bound over them.
set -eu
dir=$1
for file in sesman.ini xrdp.ini startwm.sh; do
    mount --bind "$dir/$file" "/etc/xrdp/$file"
done
# Private run and tmp directories: sockets, pid files and X locks of two hosts would meet there.
mount -t tmpfs tmpfs /run
mkdir -m 1777 /run/lock
mount -t tmpfs -o mode=1777 tmpfs /tmp
xrdp-sesman --nodaemon &
xrdp --nodaemon &
# One without the other is no host. This shell is process 1 here: when it ends, all end.
wait -n
