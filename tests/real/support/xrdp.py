"""A real xrdp host, and the farm of two of them. Used by conftest.py.

Logons are read from sesman's own log: that is the host's word on who logged on there, independent of
what sessionguard or guacd say.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from . import net
from .process import Process

_HERE = Path(__file__).parent
# Sessions stay until the run ends, and which host takes one is partly chance: each has room for every
# logon of the suite. A host without room says "login failed" to the user, on a page that looks like no desktop.
_DISPLAYS = 150

_SESMAN_INI = """\
[Globals]
ListenAddress=127.0.0.1
ListenPort={sesman_port}
EnableUserWindowManager=false
DefaultWindowManager=startwm.sh
ReconnectScript=reconnectwm.sh
[Security]
AllowRootLogin=false
MaxLoginRetry=4
[Sessions]
X11DisplayOffset={display}
MaxSessions={displays}
KillDisconnected=false
Policy=Default
[Logging]
LogFile={dir}/sesman.log
LogLevel=INFO
EnableSyslog=false
[Xvnc]
param=Xvnc
param=-bs
param=-nolisten
param=tcp
param=-localhost
[SessionVariables]
SG_HOST={id}
"""

_XRDP_INI = """\
[Globals]
ini_version=1
fork=true
port=tcp://{host}:{port}
security_layer=negotiate
crypt_level=high
certificate=
key_file=
autorun=Xvnc
allow_channels=true
max_bpp=32
use_fastpath=both
[Logging]
LogFile={dir}/xrdp.log
LogLevel=INFO
EnableSyslog=false
[Channels]
rdpdr=true
rdpsnd=true
drdynvc=true
cliprdr=true
[Xvnc]
name=Xvnc
lib=libvnc.so
username=ask
password=ask
ip=127.0.0.1
port=-1
"""

_LOGON = re.compile(r"\+\+ (created|reconnected) session.*username (\S+?),")


@dataclass(frozen=True)
class Logon:
    host: str
    kind: str  # "created" or "reconnected", xrdp's words
    user: str


class XrdpHost:
    def __init__(self, host_id, address, run_dir, port=None):
        self.id = host_id
        self.host = address
        self.port = port or net.free_port(self.host)
        self.dir = run_dir / host_id
        self.dir.mkdir()
        sesman_port = net.free_port("127.0.0.1")
        facts = dict(id=host_id, host=self.host, port=self.port, dir=self.dir, displays=_DISPLAYS,
                     display=net.free_displays(_DISPLAYS), sesman_port=sesman_port)
        (self.dir / "sesman.ini").write_text(_SESMAN_INI.format(**facts))
        (self.dir / "xrdp.ini").write_text(_XRDP_INI.format(**facts))
        startwm = self.dir / "startwm.sh"
        startwm.write_text((_HERE / "desktop.sh").read_text())
        startwm.chmod(0o755)
        self.process = Process(f"xrdp {host_id}", [_HERE / "xrdp-host.sh", self.dir], self.dir / "console.log",
                               contained=True)
        # Where there is IPv6, sesman makes ::1 of the 127.0.0.1 it is told: ask for either.
        self.process.until(lambda: ((net.answers("::1", sesman_port) or net.answers("127.0.0.1", sesman_port))
                                    and net.answers(self.host, self.port)),
                           10, "accepts connections")

    def tail(self, lines=8):
        """The end of what its session manager says."""
        return f"{self.id}:\n" + "\n".join(self._log().splitlines()[-lines:])

    def logons(self):
        """Every logon this host saw, oldest first."""
        return [Logon(self.id, m[1], m[2]) for m in _LOGON.finditer(self._log())]

    def _log(self):
        log = self.dir / "sesman.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def stop(self):
        self.process.stop()


class Farm:
    """The two hosts `rds-a` and `rds-b`."""

    def __init__(self, run_dir):
        self.hosts = [XrdpHost("rds-a", net.address(21), run_dir), XrdpHost("rds-b", net.address(22), run_dir)]

    def logons(self, user):
        """All logons of `user` in the farm, host by host."""
        return [entry for host in self.hosts for entry in host.logons() if entry.user == user.name]

    def host(self, host_id):
        return next(h for h in self.hosts if h.id == host_id)

    def other(self, host_id):
        return next(h for h in self.hosts if h.id != host_id)

    def stop(self):
        for host in self.hosts:
            host.stop()
