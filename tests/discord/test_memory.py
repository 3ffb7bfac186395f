"""What is completed while somebody types comes at once, whatever the platform does."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from discord_edge.platform_api import READS_MAX, DiscordUser, ReadCache
from shared.errors import Failed
from tests.support.waits import eventually

ADA, BOB = DiscordUser(1, "ada"), DiscordUser(2, "bob")


@dataclass
class Slow:
    """A platform that answers when it is let."""

    free: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    is_down: bool = False
    user: DiscordUser | None = None

    def on_behalf_of(self, user: DiscordUser | None) -> "Slow":
        return replace(self, user=user)

    async def get(self, _: type[Any], *path: str | int, **query: str | int) -> dict[str, Any]:
        self.asked.append((self.user, *path))
        await self.free.wait()
        if self.is_down:
            raise Failed("down")
        return {"items": [self.user and self.user.name], **query}


def memory(slow: Slow) -> ReadCache:
    return ReadCache(slow)  # type: ignore[arg-type]  # the two methods that are used


async def test_a_slow_answer_is_used_the_next_time() -> None:
    slow = Slow()
    held = memory(slow)
    async with asyncio.timeout(60):
        assert await held.get(ADA, dict, "me") is None
    slow.free.set()
    await eventually(lambda: held.get(ADA, dict, "me"))
    assert await held.get(ADA, dict, "me") == {"items": ["ada"]}
    assert len(slow.asked) == 1


async def test_answers_are_cached_per_user() -> None:
    slow = Slow()
    slow.free.set()
    held = memory(slow)
    assert await held.get(ADA, dict, "me") == {"items": ["ada"]}
    assert await held.get(BOB, dict, "me") == {"items": ["bob"]}
    assert await held.get(ADA, dict, "me", state="open") == {"items": ["ada"], "state": "open"}


async def test_many_completions_cause_few_reads() -> None:
    slow = Slow()
    held = memory(slow)
    people = [DiscordUser(n) for n in range(READS_MAX + 10)]
    answers = await asyncio.gather(*(held.get(one, dict, "me") for one in people for _ in range(3)))
    assert not any(answers)
    assert len(slow.asked) == READS_MAX
    slow.free.set()


async def test_a_platform_that_is_down_completes_nothing() -> None:
    slow = Slow(is_down=True)
    slow.free.set()
    assert await memory(slow).get(ADA, dict, "me") is None
