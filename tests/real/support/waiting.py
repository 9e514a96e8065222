"""Waits for conditions with a deadline. Used by every other module here; nothing sleeps and hopes."""

import time


def until(condition, seconds, what):
    """Polls `condition` until it is truthy and returns its value; fails with `what` at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.02)
