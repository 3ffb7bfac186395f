"""Waiting for something, always with a limit."""

import asyncio
import inspect
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, TypeVar, overload

# Steps grow, because a check may be a request to a process that is busy with what is waited for.
STEP_S, STEP_S_MAX, GROWTH = 0.01, 0.1, 1.2

Value = TypeVar("Value")


def until(check: Callable[[], Value], within_s: float = 60.0) -> Value:
    """Return what the check returns, once that is true.

    Errors: AssertionError if it was not true in time, with what came last.
    """
    end, step_s = time.monotonic() + within_s, STEP_S
    while not (value := check()):
        assert time.monotonic() < end, f"not within {within_s} s: {value!r} came last"
        time.sleep(step_s)
        step_s = _next_step_s(step_s)
    return value


@overload
async def eventually(check: Callable[[], Awaitable[Value]], within_s: float = 60.0) -> Value: ...


@overload
async def eventually(check: Callable[[], Value], within_s: float = 60.0) -> Value: ...


async def eventually(check: Callable[[], Any], within_s: float = 60.0) -> Any:
    """Repeat a check until its result is true, and return the result.

    Errors: AssertionError after `within_s`, with the last result.
    """
    until, step_s = time.monotonic() + within_s, STEP_S
    while True:
        result = check()
        value = await result if inspect.isawaitable(result) else result
        if value:
            return value
        assert time.monotonic() < until, f"not within {within_s} s; the last result was {value!r}"
        await asyncio.sleep(step_s)
        step_s = _next_step_s(step_s)


def comes_true(check: Callable[[], object], within_s: float = 10.0) -> bool:
    """Return whether a check becomes true in time."""
    end, step_s = time.monotonic() + within_s, STEP_S
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(step_s)
        step_s = _next_step_s(step_s)
    return True


def _next_step_s(step_s: float) -> float:
    return min(GROWTH * step_s, STEP_S_MAX)


def free_port() -> int:
    """Return a port on loopback that nobody listens on."""
    return find_free_ports(1)[0]


def find_free_ports(count: int) -> list[int]:
    """Find loopback ports that are free now; servers must know the others' before they start."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free_socket in sockets:
            free_socket.bind(("127.0.0.1", 0))
        return [int(free_socket.getsockname()[1]) for free_socket in sockets]
