"""Baselines: the platform submits them itself, when a version comes and when somebody asks."""

import asyncio
import contextlib
import hashlib
from dataclasses import asdict, dataclass

from ingest.domain import baselines, problems
from ingest.domain.baselines import ROUNDS_MAX, Place
from ingest.domain.endings import Cancel, submissions
from ingest.service.decisions import By, Decisions
from ingest.service.ports import Ports
from shared import subjects
from shared.errors import Refused
from shared.event_log import Conflict, New
from shared.events import Baseline, Blob, Milestone, ProblemPublished
from shared.ids import derived
from shared.problems.baselines import Baseline as Compiled
from shared.problems.languages import MEDIA, suffix
from shared.problems.milestones import Milestone as Compared
from shared.wire import Stamp, seal

PLATFORM = "service:ingest"
SUPERSEDED = "a newer version of the problem was published"


def source_of(one: Compiled) -> Blob:
    """The name that a baseline's source has."""
    digest = hashlib.sha256(one.data).hexdigest()
    return Blob(digest=digest, bytes=len(one.data), media=MEDIA[suffix(one.file)])


def event_of(one: Compiled) -> Baseline:
    """A baseline as the event of its version says it."""
    return Baseline(
        name=one.name,
        file=one.file,
        note=one.note,
        source=source_of(one),
        gpus=list(one.gpus),
        toolchains=list(one.toolchains),
    )


def milestone_of(one: Compared) -> Milestone:
    """A milestone as the event of its version says it."""
    return Milestone(**asdict(one))


@dataclass(frozen=True)
class Ordered:
    """A run of a baseline on a GPU type; `is_new` if this request asked for it.

    Another one is open, or there is one already and no other was wanted.
    """

    name: str
    gpu: str
    submission: str
    is_new: bool


@dataclass(frozen=True)
class Baselines:
    """What makes a problem's baselines run; whatever dies in between, each run is one."""

    ports: Ports

    async def first(self, slug: str) -> list[Ordered]:
        """Run those of the newest version that never ran, and no more those of the one before.

        Errors: Refused; Failed.
        """
        history = await self.ports.log.history(subjects.problem(slug))
        versions = [one.fact for one in history if isinstance(one.fact, ProblemPublished)]
        for before in versions[-2:-1]:
            places = baselines.places(slug, before)
            await asyncio.gather(*(self._give_up(place) for place, _ in places))
        return await self._order(slug, PLATFORM, rounds=1)

    async def again(self, slug: str, actor: str) -> list[Ordered]:
        """Run those of the newest version once more, if no run of them is open.

        Errors: Refused for a problem without any; Failed.
        """
        ordered = await self._order(slug, actor, rounds=ROUNDS_MAX)
        if not ordered:
            what = f"{slug} has no baselines: its warpboard.yml names none"
            raise Refused("not_found", what, "slug")
        return ordered

    async def _give_up(self, place: Place) -> None:
        """Cancel the run that is still open: nobody compares with a version that is gone."""
        for turn in range(ROUNDS_MAX):
            submission = place.submission(turn)
            agg = subjects.submission(submission)
            if not await self.ports.log.history(agg):
                return
            decisions = Decisions(self.ports.log, self.ports.clock)
            # What is over has nothing to cancel.
            with contextlib.suppress(Refused):
                await decisions.make(agg, submissions, Cancel(SUPERSEDED), By(PLATFORM, submission))

    async def _order(self, slug: str, actor: str, rounds: int) -> list[Ordered]:
        history = await self.ports.log.history(subjects.problem(slug))
        state = problems.problems.fold(event.fact for event in history)
        published = problems.known(slug, state)
        ordered = [
            self._one(place, baseline, published, (actor, rounds))
            for place, baseline in baselines.places(slug, published)
        ]
        return list(await asyncio.gather(*ordered))

    async def _one(
        self,
        place: Place,
        baseline: Baseline,
        published: ProblemPublished,
        by: tuple[str, int],
    ) -> Ordered:
        """The run that nobody has asked for yet, or the one that is still open."""
        actor, rounds = by
        submission = place.submission(0)
        for turn in range(rounds):
            submission = place.submission(turn)
            agg = subjects.submission(submission)
            history = await self.ports.log.history(agg)
            if not history:
                at = self.ports.clock()
                fact = baselines.received(place, baseline, published, at)
                stamp = Stamp(derived(submission, "SubmissionReceived"), at, actor, submission, "")
                try:
                    await self.ports.log.append(New(seal(fact, agg, stamp), 0))
                except Conflict:
                    break  # Somebody asked at the same moment.
                return Ordered(place.name, place.gpu, submission, is_new=True)
            if not submissions.fold(event.fact for event in history).is_over:
                break
        return Ordered(place.name, place.gpu, submission, is_new=False)
