#!/bin/sh
# What a test desktop shows; run by the X servers of xrdp-host.sh and vnc-host.sh, as the test user.
# The background is drawn by lot once a session, so that a picture tells whether a session is the one
# left behind; over it the 216 cube colours, whose presence tells a drawn desktop from a login page.
colour=$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')
xsetroot -solid "#$colour"
exec xterm -bg black -fg white -geometry 80x14+40+40 -e sh -c '
    echo "host $SG_HOST  user $(id -un)  display $DISPLAY"
    i=16
    while [ $i -lt 232 ]; do
        [ $(( (i - 16) % 36 )) -eq 0 ] && echo
        printf "\033[48;5;%dm  " "$i"
        i=$((i + 1))
    done
    printf "\033[0m\n"
    exec sleep infinity'
