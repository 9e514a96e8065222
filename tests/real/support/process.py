"""One started program: output to a file, ended by its own process id. Used by all components."""

import ctypes
import os
import signal
import subprocess

from .waiting import until

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# A PID and mount namespace: ending its first process ends everything that was started inside, sessions
# and X servers that made themselves daemons included, and nothing else.
CONTAINED = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]


def die_with_pytest():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A running program; `log` is the path of its stdout and stderr."""

    def __init__(self, name, argv, log, contained=False, env=os.environ):
        self.name, self.log = name, log
        self._contained = contained
        with open(log, "ab") as out:
            self._process = subprocess.Popen(
                (CONTAINED if contained else []) + [str(a) for a in argv],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                preexec_fn=die_with_pytest, env=env)

    @property
    def pid(self):
        return self._process.pid

    def running(self):
        return self._process.poll() is None

    def until(self, condition, seconds, what):
        """Waits for `condition`; fails at once, with the log's end, when the program has exited."""
        def check():
            value = condition()
            if not value and not self.running():
                raise AssertionError(f"{self.name} exited with {self._process.returncode}:\n{self.tail()}")
            return value
        return until(check, seconds, lambda: f"{self.name}: {what}\n{self.tail()}")

    def tail(self, lines=30):
        return "\n".join(self.text().splitlines()[-lines:])

    def text(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def interrupt(self, seconds=20):
        """As Ctrl-C does; returns the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(seconds)

    def stop(self, seconds=10):
        """Ends the program: politely, or with all it started where it is contained."""
        if self.running():
            self._process.send_signal(signal.SIGKILL if self._contained else signal.SIGTERM)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self.name} did not end within {seconds} s of SIGTERM:\n{self.tail()}")
