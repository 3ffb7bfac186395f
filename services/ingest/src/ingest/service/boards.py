"""What authors and operators decide about leaderboards: who sees them, and what they take in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

import msgspec

from ingest.domain import board_quotas, problems, releases
from ingest.domain.callers import Caller
from ingest.domain.quotas import EVERYBODY, SetLimit
from ingest.service.decisions import By, Decisions, Made, Wish
from ingest.service.gate import AccessFeed
from ingest.service.ports import Lookups
from shared import subjects
from shared.blobs import Blobs, Missing
from shared.errors import Failed
from shared.events import ProblemPublished


@dataclass(frozen=True)
class BoardWish:
    """What is to be so of a leaderboard, and whether an operator wants it."""

    slug: str
    change: problems.Change
    quotas: Sequence[SetLimit] = ()
    is_operator: bool = True

    def limits(self, gpus: Sequence[str]) -> list[Wish]:
        """The quotas, to be decided on; `gpus` are the leaderboard's. Errors: Refused."""
        if not self.quotas:
            return []
        found = board_quotas.checked(self.quotas, gpus)
        decider = board_quotas.everybodys if self.is_operator else board_quotas.tighter
        return [Wish(subjects.quota(EVERYBODY), decider, found)]


class Settings(NamedTuple):
    """What a leaderboard is set to, and its newest version."""

    slug: str
    state: problems.Problem
    published: ProblemPublished
    quotas: list[str]
    licence: dict[str, str]


class _Manifest(msgspec.Struct):
    """What of a manifest no event says."""

    licence: dict[str, str] = {}


@dataclass(frozen=True)
class Boards:
    """The commands about leaderboards."""

    decisions: Decisions
    feed: AccessFeed
    lookups: Lookups
    blobs: Blobs

    async def settings(self, caller: Caller, slug: str) -> Settings:
        """What a leaderboard that exists for them is set to. Errors: Refused; Failed."""
        board = self.feed.now().leaderboard(slug)
        if board.is_closed and not (caller.is_staff or slug in caller.reader.boards):
            raise problems.unknown(slug)
        state = await self.problem(slug)
        published = problems.known(slug, state)
        return Settings(
            slug, state, published, await self.quotas(slug), await self._licence(published)
        )

    async def _licence(self, published: ProblemPublished) -> dict[str, str]:
        try:
            manifest = await self.blobs.get(published.manifest.digest)
        except Missing as missing:
            raise Failed(f"the problem's files are not there: {missing}") from missing
        return msgspec.json.decode(manifest, type=_Manifest).licence

    async def problem(self, slug: str) -> problems.Problem:
        """A problem as it is now. Errors: Failed."""
        history = await self.decisions.log.history(subjects.problem(slug))
        return problems.problems.fold(one.fact for one in history)

    async def released(self, slug: str, at: datetime) -> dict[int, ProblemPublished]:
        """The versions of which everybody may have what was sent in.

        Errors: Refused `private_only`; Failed.
        """
        history = await self.decisions.log.history(subjects.problem(slug))
        facts = [one.fact for one in history]
        state = problems.problems.fold(facts)
        return releases.published(slug, state, releases.versions(facts), at)

    async def quotas(self, slug: str) -> list[str]:
        """The quotas that a leaderboard gives everybody. Errors: Failed."""
        history = await self.decisions.log.history(subjects.quota(EVERYBODY))
        return board_quotas.shown(slug, board_quotas.everybodys.fold(one.fact for one in history))

    async def informed(self, wish: BoardWish, version_gpus: Sequence[str] = ()) -> problems.Change:
        """A change with what must be known to decide it: whom it would take something from.

        Once a deadline is over sources are seen: where there are some, it comes no sooner by who is
        no operator. `version_gpus` are those of a version that comes with it. Errors: Failed.
        """
        slug, command = wish.slug, replace(wish.change, at=self.decisions.clock())
        if command.has_deadline is not None and not wish.is_operator:
            command = replace(command, is_no_sooner=await self.lookups.is_used(slug))
        state = await self.problem(slug)
        after = command.gpus or state.gpus or version_gpus or state.open_gpus
        kept = {gpu.lower() for gpu in after}
        if any(gpu.lower() not in kept for gpu in state.open_gpus):
            command = replace(command, used=await self.lookups.gpus_used(slug))
        return command

    async def change(self, wish: BoardWish, actor: str) -> Made:
        """Let others see a leaderboard, or take in otherwise. Errors: Refused; Failed."""
        slug = wish.slug
        self.feed.now().leaderboard(slug)
        command = await self.informed(wish)
        state = await self.problem(slug)
        wishes = [
            Wish(subjects.problem(slug), problems.problems, command),
            *wish.limits(
                problems.spelled(command.gpus or state.open_gpus, sorted(state.gpus_ever))
            ),
        ]
        return await self._made(slug, wishes, actor)

    async def archive(self, slug: str, reason: str, actor: str) -> Made:
        """Let a leaderboard take nothing in any more. Errors: Refused; Failed."""
        self.feed.now().leaderboard(slug)
        command = problems.Archive(reason)
        wish = Wish(subjects.problem(slug), problems.problems, command)
        return await self._made(slug, [wish], actor)

    async def _made(self, slug: str, wishes: Sequence[Wish], actor: str) -> Made:
        made = await self.decisions.make_all(wishes, By(actor, slug))
        await self.feed.reach(made.seq, made.facts)
        return made
