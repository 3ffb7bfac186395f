"""Waiting for something outside of this process, always with a limit."""

import socket
import time
from collections.abc import Callable
from typing import TypeVar

STEP_S = 0.01

Value = TypeVar("Value")


def until(check: Callable[[], Value], within_s: float = 60.0) -> Value:
    """Return what the check returns, once that is true.

    Errors: AssertionError if it was not true in time, with what came last.
    """
    end = time.monotonic() + within_s
    while not (value := check()):
        assert time.monotonic() < end, f"not within {within_s} s: {value!r} came last"
        time.sleep(STEP_S)
    return value


def comes_true(check: Callable[[], object], within_s: float = 10.0) -> bool:
    """Return whether a check becomes true in time."""
    end = time.monotonic() + within_s
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(STEP_S)
    return True


def free_port() -> int:
    """Return a port on loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
