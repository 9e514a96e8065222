#!/bin/bash
# Runs one VNC desktop; started by vnc.py inside a mount and PID namespace of its own.
# Arguments: address, port, display number, path of desktop.sh.
set -eu
# Read before /tmp is covered: the project may be below it.
desktop=$(cat "$4")
mount -t tmpfs -o mode=1777 tmpfs /tmp
Xtigervnc ":$3" -SecurityTypes None -interface "$1" -rfbport "$2" -geometry 1024x768 -depth 24 -nolisten tcp &
export DISPLAY=:$3 SG_HOST=vnc
until xsetroot -d "$DISPLAY" 2>/dev/null; do kill -0 $!; done
bash -c "$desktop" &
wait -n
