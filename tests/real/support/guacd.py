"""A real guacd in the foreground. Used by conftest.py."""

import os

from . import net
from .process import Process


class Guacd:
    def __init__(self, run_dir, port=None):
        self.host = net.address(1)
        self.port = port or net.free_port(self.host)
        # FreeRDP keeps known certificates below HOME: not in the caller's.
        self.process = Process(
            "guacd", ["guacd", "-f", "-L", "info", "-b", self.host, "-l", self.port],
            run_dir / "guacd.log", contained=True, env={**os.environ, "HOME": str(run_dir)})
        self.process.until(lambda: net.answers(self.host, self.port), 10, "accepts connections")

    def stop(self):
        self.process.stop()
