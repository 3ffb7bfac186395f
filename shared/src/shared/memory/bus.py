"""The bus in memory: heartbeats with timers, words by queue, inboxes of a log."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from shared import subjects
from shared.bus import Beat, Inbox
from shared.deadletters import DeadLetter
from shared.memory.inbox import MemoryInbox
from shared.memory.log import MemoryLog

TELL_BYTES_MAX = 64 * 1024


class MemoryBus:
    """Heartbeats with timers, words by queue, and the inboxes of the agents in a log."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log = MemoryLog() if log is None else log
        self._alive: dict[str, bytes] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watchers: list[asyncio.Queue[Beat]] = []
        self._hearers: list[tuple[str, asyncio.Queue[tuple[str, bytes]]]] = []
        self._inboxes: dict[str, MemoryInbox] = {}

    async def beat(self, agent: str, value: bytes, ttl_s: int) -> None:
        """Say that an agent lives; see the port."""
        assert ttl_s >= 1, "the server counts in seconds, from one on"
        subjects.agent(agent)
        self._forget(agent)
        self._alive[agent] = value
        self._timers[agent] = asyncio.get_running_loop().call_later(ttl_s, self._gone, agent)
        self._say(Beat(agent, value))

    async def leave(self, agent: str) -> None:
        """Say that an agent goes, now; see the port."""
        if agent in self._alive:
            self._gone(agent)

    async def beats(self) -> AsyncIterator[Beat]:
        """First every agent alive, then each change; see the port."""
        queue: asyncio.Queue[Beat] = asyncio.Queue()
        for agent, value in self._alive.items():
            queue.put_nowait(Beat(agent, value))
        self._watchers.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.remove(queue)

    async def tell(self, topic: str, data: bytes) -> None:
        """Say something to whoever listens now; see the port."""
        if len(data) > TELL_BYTES_MAX:
            raise ValueError(f"{len(data)} bytes on {topic} are over {TELL_BYTES_MAX}")
        for wanted, queue in self._hearers:
            if topic == wanted or (wanted.endswith(">") and topic.startswith(wanted[:-1])):
                queue.put_nowait((topic, data))

    async def hear(self, topic: str) -> AsyncIterator[tuple[str, bytes]]:
        """What is told on a topic from the first step on."""
        queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._hearers.append((topic, queue))
        try:
            while True:
                yield await queue.get()
        finally:
            self._hearers.remove((topic, queue))

    async def inbox(self, agent: str, after: int = 0) -> Inbox:
        """The inbox of an agent's runs; see the port."""
        return self._reading(subjects.agent_inbox(agent), [f"{subjects.runs(agent)}.>"], after)

    async def news(self, consumer: str, *aggs: str) -> Inbox:
        """What aggregates say from now on; see the port."""
        return self._reading(consumer, aggs, await self._log.last())

    async def forget(self, consumer: str) -> None:
        """Have no place kept for this name; see the port."""
        self._inboxes.pop(consumer, None)

    def letters(self) -> list[DeadLetter]:
        """What its inboxes gave up, oldest first."""
        found = [letter for inbox in self._inboxes.values() for letter in inbox.letters]
        return sorted(found, key=lambda letter: letter.at)

    def _reading(self, consumer: str, aggs: Sequence[str], after: int) -> MemoryInbox:
        if consumer not in self._inboxes:
            self._inboxes[consumer] = MemoryInbox(self._log, consumer, aggs, after)
        return self._inboxes[consumer]

    def _say(self, beat: Beat) -> None:
        for queue in self._watchers:
            queue.put_nowait(beat)

    def _forget(self, agent: str) -> None:
        self._alive.pop(agent, None)
        if agent in self._timers:
            self._timers.pop(agent).cancel()

    def _gone(self, agent: str) -> None:
        self._forget(agent)
        self._say(Beat(agent, None))
