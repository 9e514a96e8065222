"""Guacamole clients in other languages: guacamole-lite (Node) and guacamole-common (Java). Used by the tests.

Each is a small program in ../foreign that clicks once and prints what its page gets; this paints it. Users and
passwords go through its stdin: a command line is everybody's to read.
"""

import json
import os
import subprocess
import threading
from pathlib import Path

from .picture import Picture
from .process import die_with_pytest
from .waiting import until

_HERE = Path(__file__).resolve().parent
_PROGRAMS = _HERE.parent / "foreign"
_INSTALLED = _HERE.parents[1] / ".cache"


def guacamole_lite(address, parameters):
    """Its WebSocket server in front of `address`, and a page of its own in front of that."""
    connection = {"type": "rdp", "settings": parameters}
    head = json.dumps({"host": address[0], "port": address[1], "connection": connection}) + "\n"
    return Foreign(["node", _PROGRAMS / "guacamole-lite" / "click.js"], head,
                   {"NODE_PATH": str(_INSTALLED / "guacamole-lite" / "node_modules")})


def guacamole_common(version):
    """What Guacamole of that version speaks to guacd with."""
    def click(address, parameters):
        head = "".join(f"{name}={value}\n" for name, value in parameters.items()) + "\n"
        return Foreign(["java", "--class-path", _INSTALLED / "guacamole-common" / version / "*",
                        _PROGRAMS / "guacamole-common" / "Click.java", *address, "rdp"], head)
    return click


class Foreign:
    """One click, and the page that it opened."""

    def __init__(self, argv, head, environment=None):
        self.picture = Picture()
        self.opcodes = []   # in order; guacamole-lite gives its page the connection's id by an empty one
        self.notes = []     # what the program says besides instructions: lists of words
        self.error = None   # status code of the first `error`, a number
        self.ended = False
        self._complaints = []
        self._process = subprocess.Popen(
            [str(a) for a in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, **(environment or {})}, start_new_session=True,
            preexec_fn=die_with_pytest)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._complain)]
        for thread in self._threads:
            thread.start()
        self._process.stdin.write(head)
        self._process.stdin.flush()

    def _read(self):
        try:
            for line in self._process.stdout:
                if line.startswith("# "):
                    self.notes.append(line.split()[1:])
                    continue
                opcode, *arguments = _elements(line)
                self.picture.apply(opcode, arguments)
                if opcode == "error":
                    self.error = self.error or int(arguments[1])
                self.opcodes.append(opcode)
        except Exception as failure:  # kept for the test that waits
            self._complaints.append(repr(failure))
        finally:
            self.ended = True

    def _complain(self):
        self._complaints.extend(self._process.stderr)

    def noted(self, word):
        """What followed this word, or None."""
        return next((rest for first, *rest in self.notes if first == word), None)

    def until(self, condition, seconds, what):
        """Waits for `condition`; fails at once when the program ended without it."""
        def story():
            return f"{what}; notes {self.notes}, last instructions {self.opcodes[-10:]}, {self._complaints[-20:]}"

        def check():
            ended = self.ended  # before the condition: what came with the end counts
            value = condition()
            if not value and ended:
                raise AssertionError(f"the client ended before: {story()}")
            return value
        return until(check, seconds, story)

    def until_desktop(self, seconds=40):
        """Waits until the test desktop is drawn."""
        self.until(self.picture.desktop_drawn, seconds, "the desktop is drawn")

    def close(self):
        """The page is closed; the program says goodbye and ends."""
        if not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            assert self._process.wait(10) == 0, self._complaints[-20:]
        finally:
            self._process.kill()
            for thread in self._threads:
                thread.join(10)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()


def _elements(line):
    """The elements of one instruction: LENGTH.TEXT, commas between, a semicolon behind the last."""
    found, at = [], 0
    while True:
        dot = line.index(".", at)
        end = dot + 1 + int(line[at:dot])
        found.append(line[dot + 1:end])
        if line[end] == ";":
            return found
        assert line[end] == ",", line
        at = end + 1
