"""Starts and cancels the runs of baselines."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.baselines.rules import BaselineTarget, baseline_targets, receive_baseline
from ingest.decisions import Decisions
from ingest.ports import Ports
from ingest.problems import rules as problems
from ingest.submissions.rules import SUBMISSION_DECIDER
from shared import events, subjects
from shared.api import cases as api
from shared.errors import Refused
from shared.event_log import Conflict

# The most runs of one baseline.
ROUNDS_MAX = 1000
PLATFORM = "service:ingest"
SUPERSEDED = "a newer version of the problem was published"
ARCHIVED = "the leaderboard was archived"


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
        if problems.PROBLEM_DECIDER.fold(facts).is_archived:
            return []
        return await self._start_runs(slug, facts, PLATFORM, rounds=1)

    async def cancel_archived(self, slug: str, facts: Sequence[events.Fact]) -> None:
        """Cancel the open runs of an archived problem, whose history is `facts`. Raises `Failed`.

        It may be repeated: a run that has ended stays as it is.
        """
        newest = problems.newest_version(slug, problems.PROBLEM_DECIDER.fold(facts))
        await self._cancel_open_runs(slug, newest, ARCHIVED)

    async def run_again(self, slug: str, actor: str) -> list[api.BaselineRun]:
        """Run the newest version's baselines once more, unless a run is still open.

        Raises `Refused` for a problem that is archived or has no baselines, and `Failed`.
        """
        history = await self.ports.log.history(subjects.problem(slug))
        facts = [event.fact for event in history]
        if problems.PROBLEM_DECIDER.fold(facts).is_archived:
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
            aggregate = subjects.submission(target.submission(number))
            if not await self.ports.log.history(aggregate):
                return
            # A finished run is refused: there is nothing to cancel.
            with contextlib.suppress(Refused):
                cancel = events.SubmissionCancelRequested(reason=reason)
                await self.decisions.make(aggregate, SUBMISSION_DECIDER, cancel, PLATFORM)

    async def _start_runs(
        self, slug: str, facts: Sequence[events.Fact], actor: str, rounds: int
    ) -> list[api.BaselineRun]:
        published = problems.newest_version(slug, problems.PROBLEM_DECIDER.fold(facts))
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
            aggregate = subjects.submission(submission)
            history = await self.ports.log.history(aggregate)
            if not history:
                try:
                    await self.decisions.record(aggregate, received, actor)
                except Conflict:
                    break  # Somebody else started it at the same moment.
                is_new = True
                break
            if not SUBMISSION_DECIDER.fold(event.fact for event in history).is_over:
                break
        return api.BaselineRun(
            name=target.name, gpu=target.gpu, submission=submission, is_new=is_new
        )
