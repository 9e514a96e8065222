"""A real VNC desktop (TigerVNC). Used by conftest.py."""

from pathlib import Path

from . import net
from .process import Process

_HERE = Path(__file__).parent


class VncHost:
    def __init__(self, run_dir):
        self.host = net.address(31)
        self.port = net.free_port(self.host)
        self.process = Process(
            "vnc", [_HERE / "vnc-host.sh", self.host, self.port, net.free_displays(1), _HERE / "desktop.sh"],
            run_dir / "vnc.log", contained=True)
        self.process.until(lambda: net.answers(self.host, self.port), 10, "accepts connections")

    def stop(self):
        self.process.stop()
