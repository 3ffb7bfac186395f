"""Publishes what a repository holds, however long that takes, and tells how far it is."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from discord_edge.domain import sets
from discord_edge.domain.wording import escaped, refusal
from discord_edge.service.following import PAUSE_S_MIN, persist
from discord_edge.service.letters import Letters
from discord_edge.service.office import Office
from discord_edge.service.once import once
from discord_edge.service.ports import User
from discord_edge.service.public import Ledger, Slip
from discord_edge.service.tasks import Tasks
from shared.errors import Failed, Refused
from shared.telling.answers import Answer

ANSWER_BYTES_MAX = 1024 * 1024
LOOK_EVERY_S = 4.0
# How many problems are looked at at once for whether they are published.
LOOKED_MAX = 20
# Where nothing is published for so long, nobody waits for more; each try may fetch everything.
QUIET_S_MAX, PAUSE_S_MAX = 900.0, 60.0

# What shows how far it is, or with True how it ended; whether anybody saw it. It never fails.
Shown = Callable[[list[str], bool], Awaitable[bool]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Errand:
    """What is published for whom; `before` are the problems' versions, 0 where there was none.

    What `is_late` was agreed to hours ago: the repository may hold something else by now.
    """

    key: str
    user: User
    channel: str
    said: Mapping[str, object]
    before: Mapping[str, int]
    is_late: bool = False

    @property
    def name(self) -> str:
        """The repository, harmless."""
        return escaped(str(self.said["repository"]))


class Errands(Protocol):
    """What is being published. Errors of each: Failed."""

    async def begin(self, errand: Errand) -> None:
        """Keep it until its end is told."""
        ...

    async def end(self, key: str) -> None:
        """Its end was told."""
        ...

    async def open(self) -> list[Errand]:
        """Those whose end nobody was told."""
        ...


async def unseen(_: list[str], __: bool) -> bool:
    """Nobody looks any more."""
    return False


async def came(api: Office, user: User, said: Mapping[str, object], *, is_dry: bool) -> Answer:
    """What comes of every problem of a repository. Errors: Refused; Failed."""
    path = "/admin/update-problems"
    data = await api.late(user, path, ANSWER_BYTES_MAX, **said, dry_run=is_dry)
    try:
        found = json.loads(data)
    except ValueError as error:
        raise Failed("what came of the problems cannot be read") from error
    return found if isinstance(found, dict) else {}


@dataclass
class Publishing:
    """Publishes repositories, each in a task of its own."""

    api: Office
    errands: Errands
    ledger: Ledger
    letters: Letters
    tasks: Tasks = field(default_factory=Tasks)

    async def versions(self, user: User, planned: Mapping[str, Any]) -> dict[str, int]:
        """The newest versions of what is planned, 0 where there is none. Errors: Failed."""
        names = [str(name) for head in sets.HEADS for name in planned.get(head, ())]
        return {name: await self._version(user, name) for name in names}

    async def begin(self, errand: Errand, shown: Shown) -> None:
        """Publish in the background. Errors: Failed, and then nothing is published."""
        await self.errands.begin(errand)
        self._start(errand, shown)

    async def resume(self) -> None:
        """Go on with what the process before had begun. Errors: Failed."""
        for errand in await self.errands.open():
            self._start(errand, unseen)

    async def stop(self) -> None:
        """Leave off; the next process goes on."""
        await self.tasks.stop()

    def _start(self, errand: Errand, shown: Shown) -> None:
        self.tasks.begin(self._whole(errand, shown), f"publish {errand.key}")

    async def _whole(self, errand: Errand, shown: Shown) -> None:
        one = _One(self, errand, shown)
        lines, summary = await one.told()
        if not await shown(lines, True):
            await self._write(errand, lines, summary)
        await persist(lambda: self.errands.end(errand.key))

    async def _write(self, errand: Errand, lines: list[str], summary: str) -> None:
        """Tell its end by letter; who takes none reads the sum of it where the command was."""
        name = f"errand:{errand.key}"
        head = f"`/admin update-problems` of {errand.name}:"
        slip = Slip("\n".join([head, *sets.fitting(lines[:-1]), lines[-1]]))
        await persist(lambda: once(self.ledger, name, lambda: self._letter(errand, slip, summary)))

    async def _letter(self, errand: Errand, slip: Slip, summary: str) -> str:
        whom, name = str(errand.user.id), f"errand:{errand.key}"
        try:
            room = await self.letters.mail.room(whom)
            return await self.letters.write(room, whom, slip, name)
        except Refused as refused:
            _log.info("errand %s is told in the channel: %s", errand.key, refused.reason)
        called = Slip(f"<@{whom}> `/admin update-problems` of {errand.name}: {summary}")
        try:
            return await self.letters.write(errand.channel, whom, called, name)
        except Refused as refused:
            _log.warning("errand %s is told to nobody: %s", errand.key, refused.reason)
            return ""

    async def _version(self, user: User, slug: str) -> int:
        try:
            return int((await self.api.get(user, "problems", slug))["number"])
        except Refused:
            return 0

    async def published(self, errand: Errand, pending: list[str]) -> list[str]:
        """Those of some problems that have another version than before."""
        found = []
        for name in pending[:LOOKED_MAX]:
            try:
                if await self._version(errand.user, name) > errand.before[name]:
                    found.append(name)
            except Failed:
                break
        return found


class _One:
    """One repository on its way."""

    def __init__(self, publishing: Publishing, errand: Errand, shown: Shown) -> None:
        self._publishing, self._errand, self._shown = publishing, errand, shown
        self._done: list[str] = []
        self._news_at = time.monotonic()

    async def told(self) -> tuple[list[str], str]:
        """What came of it in lines, and in one line that names no problem."""
        if self._errand.is_late:
            await self._look()
            why = f"The bot was away for too long: {self._count()}. The same command goes on."
            return [*self._so_far(), why], why
        telling = asyncio.create_task(self._tell())
        try:
            answer = await self._answered()
        except Refused as refused:
            why = refusal(refused, self._errand.key)
            return [*self._so_far(), why], f"{self._count()}; then it was refused"
        except Failed:
            why = f"The platform does not answer: {self._count()}. The same command goes on."
            return [*self._so_far(), why], why
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        await self._look()
        whole = sets.merged(answer, self._errand.before, self._done)
        return [*sets.plan(whole), "Published."], f"published: {sets.counted(whole)}"

    async def _answered(self) -> Answer:
        """The answer to the last of as many tries as it takes. Errors: Refused; Failed."""
        api, errand, pause_s = self._publishing.api, self._errand, PAUSE_S_MIN
        while True:
            try:
                return await came(api, errand.user, errand.said, is_dry=False)
            except Failed as failed:
                # What is published stays, so the next try goes on from there.
                _log.warning("errand %s is tried again: %s", errand.key, failed)
                await self._look()
                if time.monotonic() - self._news_at > QUIET_S_MAX:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _tell(self) -> None:
        """Say how far it is while somebody sees it, and note what comes."""
        is_seen = await self._shown([f"Publishing {self._errand.name}: {self._count()} …"], False)
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if await self._look() and is_seen:
                said = f"Publishing {self._errand.name}: {self._count()} …"
                is_seen = await self._shown([said], False)

    async def _look(self) -> bool:
        """Whether more is published than before."""
        pending = [one for one in self._errand.before if one not in self._done]
        found = await self._publishing.published(self._errand, pending)
        news = [one for one in found if one not in self._done]
        self._done += news
        if news:
            self._news_at = time.monotonic()
        return bool(news)

    def _so_far(self) -> list[str]:
        return sets.plan(sets.merged({}, self._errand.before, self._done))

    def _count(self) -> str:
        return f"{len(self._done)} of {len(self._errand.before)} published"
