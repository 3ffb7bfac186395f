"""Baselines: the submissions that the platform itself runs for a problem version."""

import asyncio
import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends
from msgspec import structs

from ingest.decisions import Decisions
from ingest.http.bodies import ReasonRequest
from ingest.http.fields import SlugInPath
from ingest.identity.http.authenticator import Authenticator
from ingest.ports import Ports
from ingest.problems import rules as problems
from ingest.submissions.rules import QUEUE_WAIT_S_MAX, deadline, safe_name, submissions
from shared import events, subjects
from shared.api import cases as api
from shared.errors import Refused
from shared.event_log import Append, Conflict
from shared.http import DocumentedRoute
from shared.problems.goals import Baseline as Compiled
from shared.problems.submission_file import MEDIA, suffix
from shared.subjects import BASELINE_ACCOUNT, derive_id

# Baselines run in the lowest priority class, so they may wait longer.
CLASS = "rejudge"
WAIT_S_MAX = 24 * 3600.0
MODE = "ranked"
VIA = "platform"
# The most runs of one baseline.
ROUNDS_MAX = 1000

PLATFORM = "service:ingest"
SUPERSEDED = "a newer version of the problem was published"
ARCHIVED = "the leaderboard was archived"


class BaselineTarget(NamedTuple):
    """A baseline on one GPU type, for one version of its problem."""

    slug: str
    number: int
    digest: str
    name: str
    gpu: str

    def submission(self, turn: int) -> str:
        """Return the id of the run with this number; the same number gives the same id."""
        where = f"{self.slug}/{self.number}/{self.digest}/{self.name}/{self.gpu}"
        return derive_id(f"{where}/{turn}", "Baseline")


def baseline_targets(
    slug: str, published: events.ProblemPublished
) -> Sequence[tuple[BaselineTarget, events.Baseline]]:
    """Return each baseline of a version with each GPU type it runs on."""
    return [
        (BaselineTarget(slug, published.number, published.digest, baseline.name, gpu), baseline)
        for baseline in published.baselines
        for gpu in published.gpus
        if not baseline.gpus
        or gpu.lower() in {baseline_gpus.lower() for baseline_gpus in baseline.gpus}
    ]


def receive_baseline(
    place: BaselineTarget,
    baseline: events.Baseline,
    published: events.ProblemPublished,
    at: datetime,
) -> events.SubmissionReceived:
    """Return the event for a baseline run: without quota, in the lowest priority class."""
    requires = published.requires
    toolchains = dict.fromkeys([*requires.toolchains, *baseline.toolchains])
    extra_wait = timedelta(seconds=WAIT_S_MAX - QUEUE_WAIT_S_MAX)
    return events.SubmissionReceived(
        account=BASELINE_ACCOUNT,
        problem=place.slug,
        problem_number=place.number,
        problem_digest=place.digest,
        gpu=place.gpu,
        mode=MODE,
        source=baseline.source,
        name=safe_name(baseline.file),
        deadline_at=deadline(MODE, published.budgets_s, at) + extra_wait,
        via=VIA,
        class_=CLASS,
        requires=structs.replace(requires, toolchains=list(toolchains)),
        baseline=baseline.name,
    )


def baseline_source(baseline: Compiled) -> events.Blob:
    """Return the blob of a baseline's source."""
    digest = hashlib.sha256(baseline.data).hexdigest()
    return events.Blob(digest=digest, bytes=len(baseline.data), media=MEDIA[suffix(baseline.file)])


def baseline_event(baseline: Compiled) -> events.Baseline:
    """Return a baseline as its version's event holds it."""
    return events.Baseline(
        name=baseline.name,
        file=baseline.file,
        note=baseline.note,
        source=baseline_source(baseline),
        gpus=list(baseline.gpus),
        toolchains=list(baseline.toolchains),
    )


@dataclass(frozen=True)
class Baselines:
    """Starts baseline runs; a restart never starts one twice."""

    ports: Ports
    decisions: Decisions

    async def run_new(self, slug: str, facts: Sequence[events.Fact]) -> list[api.BaselineRun]:
        """Run the newest version's baselines that never ran, and cancel the previous version's.

        An archived problem runs none. `facts` is the history of the problem. Raises `Refused` and
        `Failed`.
        """
        versions = [fact for fact in facts if isinstance(fact, events.ProblemPublished)]
        for previous in versions[-2:-1]:
            await self._cancel_open_runs(slug, previous, SUPERSEDED)
        if problems.problems.fold(facts).is_archived:
            return []
        return await self._start_runs(slug, facts, PLATFORM, rounds=1)

    async def cancel_archived(self, slug: str, facts: Sequence[events.Fact]) -> None:
        """Cancel the open runs of an archived problem, whose history is `facts`. Raises `Failed`.

        It may be repeated: a run that has ended stays as it is.
        """
        newest = problems.newest_version(slug, problems.problems.fold(facts))
        await self._cancel_open_runs(slug, newest, ARCHIVED)

    async def run_again(self, slug: str, actor: str) -> list[api.BaselineRun]:
        """Run the newest version's baselines once more, unless a run is still open.

        Raises `Refused` for a problem that is archived or has no baselines, and `Failed`.
        """
        history = await self.ports.log.history(subjects.problem(slug))
        facts = [event.fact for event in history]
        if problems.problems.fold(facts).is_archived:
            raise Refused("wrong_state", f"{slug} is archived: its baselines do not run", "slug")
        ordered = await self._start_runs(slug, facts, actor, rounds=ROUNDS_MAX)
        if not ordered:
            message = f"{slug} has no baselines: its warpboard.yml names none"
            raise Refused("not_found", message, "slug")
        return ordered

    async def _cancel_open_runs(
        self, slug: str, published: events.ProblemPublished, reason: str
    ) -> None:
        """Cancel the open runs of a version with which nobody compares any more."""
        targets = baseline_targets(slug, published)
        await asyncio.gather(*(self._cancel_open_run(target, reason) for target, _ in targets))

    async def _cancel_open_run(self, target: BaselineTarget, reason: str) -> None:
        for number in range(ROUNDS_MAX):
            agg = subjects.submission(target.submission(number))
            if not await self.ports.log.history(agg):
                return
            # A finished run is refused: there is nothing to cancel.
            with contextlib.suppress(Refused):
                cancel = events.SubmissionCancelRequested(reason=reason)
                await self.decisions.make(agg, submissions, cancel, PLATFORM)

    async def _start_runs(
        self, slug: str, facts: Sequence[events.Fact], actor: str, rounds: int
    ) -> list[api.BaselineRun]:
        published = problems.newest_version(slug, problems.problems.fold(facts))
        at = self.ports.clock()
        runs = [
            self._start_run(
                target, receive_baseline(target, baseline, published, at), actor, rounds
            )
            for target, baseline in baseline_targets(slug, published)
        ]
        return list(await asyncio.gather(*runs))

    async def _start_run(
        self, target: BaselineTarget, received: events.SubmissionReceived, actor: str, rounds: int
    ) -> api.BaselineRun:
        """Start the next run, or return the one that is still open."""
        submission, is_new = target.submission(0), False
        for number in range(rounds):
            submission = target.submission(number)
            agg = subjects.submission(submission)
            history = await self.ports.log.history(agg)
            if not history:
                event_id = derive_id(submission, "SubmissionReceived")
                append = Append(agg, received, 0, "", submission, event_id)
                try:
                    await self.decisions.append(actor, append)
                except Conflict:
                    break  # Somebody else started it at the same moment.
                is_new = True
                break
            if not submissions.fold(event.fact for event in history).is_over:
                break
        return api.BaselineRun(
            name=target.name, gpu=target.gpu, submission=submission, is_new=is_new
        )


def baselines_router(baselines: Baselines, auth: Authenticator) -> APIRouter:
    """The route, for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    operator = auth.operator("admin:problems")

    @router.post("/problems/{slug}/baselines", status_code=202)
    async def start(
        slug: SlugInPath, body: ReasonRequest, actor: Annotated[str, Depends(operator)]
    ) -> api.Baselines:
        """Run a problem's baselines once more on each of its GPU types, behind everybody else.

        What still waits is not run twice.
        """
        runs = await baselines.run_again(slug.lower(), actor)
        await baselines.decisions.record_action("baselines", slug.lower(), body.reason, actor)
        return api.Baselines(slug=slug.lower(), items=runs)

    return router
