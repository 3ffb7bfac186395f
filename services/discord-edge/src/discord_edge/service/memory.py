"""What was read lately, so that nobody waits for what is completed while they type."""

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from discord_edge.service.ports import Api, User
from shared.errors import Failed, Refused
from shared.telling.answers import Answer

# Read anew after the one, of no use after the other.
FRESH_S, OLD_S = 3.0, 60.0
# Discord waits for three seconds; whoever types has typed on by then.
WAIT_S_MAX = 0.5
HELD_MAX, ASKED_MAX = 1000, 32

Key = tuple[Any, ...]
_log = logging.getLogger(__name__)


@dataclass
class Memory:
    """Answers of the platform by who asked for what; what is held is answered at once."""

    api: Api
    _held: OrderedDict[Key, tuple[float, Answer]] = field(default_factory=OrderedDict)
    _asked: dict[Key, "asyncio.Task[None]"] = field(default_factory=dict)

    async def get(self, user: User | None, *path: str | int, **query: str | int) -> Answer:
        """The last answer to a read under /v1; {} where there is none within half a second."""
        key = (user.id if user else None, path, tuple(sorted(query.items())))
        if self._age_s(key) > FRESH_S and key not in self._asked and len(self._asked) < ASKED_MAX:
            task = asyncio.create_task(self._ask(key, user, path, query))
            self._asked[key] = task
            task.add_done_callback(lambda _: self._asked.pop(key, None))
        if self._age_s(key) > OLD_S and key in self._asked:
            await asyncio.wait({self._asked[key]}, timeout=WAIT_S_MAX)
        return {} if self._age_s(key) > OLD_S else self._held[key][1]

    async def _ask(
        self, key: Key, user: User | None, path: tuple[str | int, ...], query: dict[str, str | int]
    ) -> None:
        try:
            answer = await self.api.get(user, *path, **query)
        except (Refused, Failed) as trouble:
            _log.info("nothing is completed: %s", trouble)
            return
        self._held[key] = time.monotonic(), answer
        self._held.move_to_end(key)
        if len(self._held) > HELD_MAX:
            self._held.popitem(last=False)

    def _age_s(self, key: Key) -> float:
        at = self._held[key][0] if key in self._held else float("-inf")
        return time.monotonic() - at
