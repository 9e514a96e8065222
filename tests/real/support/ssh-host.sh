#!/bin/bash
# Runs one SSH host; started by ssh.py inside a mount and PID namespace of its own.
# Argument: its configuration.
set -eu
# sshd wants this directory, and a machine may have one of its own.
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
exec /usr/sbin/sshd -D -e -f "$1"
