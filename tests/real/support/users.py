"""Users of this machine for the xrdp hosts to log on. Used by conftest.py.

Each name carries a tag of the run and each user's comment the run's process id, so that runs at once do
not meet and a run that was killed is cleaned up by the next.
"""

import os
import pwd
import re
import secrets
import subprocess
from dataclasses import dataclass, field

from .waiting import until

_COMMENT = "sessionguard real test of process "


@dataclass(frozen=True)
class User:
    name: str
    password: str = field(repr=False)


class Users:
    def __init__(self, home_dir):
        self._home_dir = home_dir
        self._tag = secrets.token_hex(2)
        self.made = []
        _remove_left_behind()

    def make(self, name):
        """A new user who has never logged on; the name is made unique in this run."""
        user = User(f"sg{self._tag}{len(self.made)}{name}", secrets.token_urlsafe(18))
        # Several runs at once share one password file, and its tools do not wait for each other's lock.
        _retried("useradd", "--create-home", "--home-dir", self._home_dir / user.name, "--shell", "/bin/sh",
                 "--comment", f"{_COMMENT}{os.getpid()}", user.name)
        self.made.append(user)
        _retried("chpasswd", text=f"{user.name}:{user.password}\n")
        return user

    def remove_all(self):
        for user in self.made:
            _retried("userdel", "--force", user.name)


def _remove_left_behind():
    for entry in pwd.getpwall():
        match = re.fullmatch(re.escape(_COMMENT) + r"(\d+)", entry.pw_gecos)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            _retried("userdel", "--force", entry.pw_name)


def _retried(*command, text=""):
    def once():
        done = subprocess.run([str(c) for c in command], input=text, capture_output=True, text=True)
        last.append(done.stderr)
        return done.returncode == 0 or "does not exist" in done.stderr
    last = []
    until(once, 20, lambda: f"{command[0]}: {last[-1]}")
