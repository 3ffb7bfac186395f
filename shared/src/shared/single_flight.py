"""Calls that are made once for all who ask for them at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[Key, T]):
    """Calls by key, of which only one runs at a time.

    Who asks first may be cancelled: the call goes on for the others. Its error is raised for all
    who wait for it.
    """

    def __init__(self) -> None:
        self._running: dict[Key, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        """Return how many calls run."""
        return len(self._running)

    def __contains__(self, key: Key) -> bool:
        """Return whether a call runs for this key."""
        return key in self._running

    async def join(self, key: Key, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the call that runs for this key; start it if there is none."""
        if key not in self._running:
            task = self._running[key] = asyncio.create_task(call())
            task.add_done_callback(partial(self._forget, key))
        return await asyncio.shield(self._running[key])

    def cancel(self) -> None:
        """Cancel all calls."""
        for task in self._running.values():
            task.cancel()

    def _forget(self, key: Key, task: "asyncio.Task[T]") -> None:
        del self._running[key]
        if not task.cancelled():
            # Read, so that asyncio logs no error that nobody waits for any more.
            task.exception()


class FreshFlight(Generic[Key, T]):
    """Calls by key, of which only one runs at a time, and one waits.

    Who asks while a call runs gets the result of the next one, which all share who ask until it
    begins. So no result is older than the question.
    """

    def __init__(self) -> None:
        self._running: dict[Key, asyncio.Task[T]] = {}
        self._next: dict[Key, asyncio.Task[T]] = {}

    async def join(self, key: Key, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a call that has not begun yet; always use the same call for a key.

        Who asks first may be cancelled: the call goes on for the others.
        """
        if key not in self._next:
            self._next[key] = asyncio.create_task(self._run(key, call))
        return await asyncio.shield(self._next[key])

    async def _run(self, key: Key, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if running := self._running.get(key):
            await asyncio.wait({running})
        self._running[key] = self._next.pop(key)
        try:
            return await call()
        finally:
            del self._running[key]
