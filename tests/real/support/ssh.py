"""A real SSH host (OpenSSH). Used by conftest.py."""

import subprocess
from pathlib import Path

from . import net
from .process import Process

_HERE = Path(__file__).parent

# Without PAM, which would want a session of the machine; the password file is asked directly.
_SSHD_CONFIG = """\
ListenAddress {host}:{port}
HostKey {key}
PidFile none
UsePAM no
UseDNS no
PermitRootLogin no
PasswordAuthentication yes
PubkeyAuthentication no
KbdInteractiveAuthentication no
"""


class SshHost:
    def __init__(self, run_dir):
        self.host = net.address(51)
        self.port = net.free_port(self.host)
        key = run_dir / "ssh-host-key"
        # One that guacd's libssh2 knows.
        subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", key], check=True)
        config = run_dir / "sshd_config"
        config.write_text(_SSHD_CONFIG.format(host=self.host, port=self.port, key=key))
        self.process = Process("sshd", [_HERE / "ssh-host.sh", config], run_dir / "sshd.log", contained=True)
        self.process.until(lambda: net.answers(self.host, self.port), 10, "accepts connections")

    def stop(self):
        self.process.stop()
