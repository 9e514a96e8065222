"""Loopback addresses, free ports and X displays that several runs at once do not share.

Used by the components. Each run takes a /24 of its own out of 127.0.0.0/8, so that even equal port
numbers of two runs do not meet.
"""

import random
import socket

_NETWORK = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}"


def address(last):
    """This run's loopback address ending in `last`."""
    return f"{_NETWORK}.{last}"


def free_port(host):
    """A port of `host` that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def answers(host, port):
    """Whether a TCP connection to host:port is accepted."""
    try:
        socket.create_connection((host, port), timeout=1).close()
        return True
    except OSError:
        return False


def free_displays(count):
    """The first of `count` free X displays in a row.

    X sockets are abstract and VNC ports lie on 127.0.0.1, so mount namespaces do not keep them apart. The
    range stays below the ephemeral ports.
    """
    for _ in range(100):
        first = random.randrange(100, 25000)
        with open("/proc/net/unix") as sockets:
            taken = sockets.read()
        if all(f"/.X11-unix/X{d}\n" not in taken and _unused(5900 + d) for d in range(first, first + count)):
            return first
    raise AssertionError("no free range of X displays found")


def _unused(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False
