"""Publishes problems: files, check report and leaderboard settings."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Protocol, TypeAlias

from ingest.decisions import AggregateCommand, Decisions
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import acting_account
from ingest.ports import Lookups, Ports
from ingest.problems import rules
from ingest.problems.commands import (
    Change,
    Check,
    LeaderboardChange,
    ProblemCommand,
    Publication,
    Publish,
)
from ingest.problems.rules import JSON
from ingest.quotas import rules as quotas
from shared import subjects
from shared.api.problems import PublishedVersion
from shared.errors import Refused
from shared.event_log import Decider
from shared.events import Fact, ProblemPublished
from shared.presentation.units import untested_text
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.warpboard_yml import apply_settings

SLUG_LENGTH_MAX = 64


async def load_problem(
    slug: str,
    load: Callable[[str, Decider[ProblemCommand, rules.Problem, Fact]], Awaitable[rules.Problem]],
) -> rules.Problem:
    """Load a problem, an empty one for a slug that cannot exist. Raises `Failed`."""
    try:
        aggregate = subjects.problem(slug)
    except ValueError:
        return rules.Problem()
    return await load(aggregate, rules.PROBLEM_DECIDER)


# Refuses what an author changes of a problem (the first) that a contest (the second) uses.
AuthorGuard: TypeAlias = Callable[[str, str], Awaitable[None]]


class BaselineRuns(Protocol):
    """Runs the baselines of problems; `facts` is the history of the problem."""

    async def run_new(self, slug: str, facts: Sequence[Fact]) -> object:
        """Run the newest version's baselines that never ran. Raises `Refused` and `Failed`."""

    async def cancel_archived(self, slug: str, facts: Sequence[Fact]) -> None:
        """Cancel the open runs of an archived problem. Raises `Failed`."""


def quota_commands(change: LeaderboardChange, gpus: Sequence[str]) -> list[AggregateCommand]:
    """Return the commands for the quotas of a leaderboard with these GPU types.

    Raises `Refused`.
    """
    if not change.quotas:
        return []
    checked = quotas.check_quotas(change.quotas, gpus)
    decider = quotas.OPERATOR_DECIDER if change.is_operator else quotas.AUTHOR_DECIDER
    return [AggregateCommand(subjects.quota(subjects.EVERYBODY), decider, checked)]


async def add_known_effects(
    lookups: Lookups,
    request: LeaderboardChange,
    state: rules.Problem,
    at: datetime,
    version_gpus: Sequence[str] = (),
) -> Change:
    """Return the change with what it would take from whom; `state` is the current problem.

    After a deadline, sources become visible. Once a problem has submissions, only an operator may
    move its deadline forward. `version_gpus` are the GPU types of a version published with the
    change. Raises `Failed`.
    """
    slug, command = request.slug, replace(request.change, at=at)
    if command.has_deadline is not None and not request.is_operator:
        command = replace(command, is_no_sooner=await lookups.is_used(slug))
    gpus_after = command.gpus or state.gpus or version_gpus or state.open_gpus
    kept_gpus = {gpu.lower() for gpu in gpus_after}
    if any(gpu.lower() not in kept_gpus for gpu in state.open_gpus):
        command = replace(command, used=await lookups.gpus_used(slug))
    return command


@dataclass(frozen=True)
class Problems:
    """Publishes problems."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed
    baselines: BaselineRuns
    check_author_may_change: AuthorGuard

    async def publish(self, publication: Publication, actor: str) -> PublishedVersion:
        """Publish these files as the newest version and apply the leaderboard settings.

        Either everything is in the log or nothing. Raises `Refused` and `Failed`.
        """
        slug = publication.slug
        version, commands = await self._prepare(publication, actor)
        store_blobs = partial(self._store_blobs, version, publication.check)
        result = await self.decisions.make_all(commands, actor, store_blobs)
        facts = [*(event.fact for event in result.before), *result.facts]
        # If the process dies here, publishing the same files again runs the baselines.
        await self.baselines.run_new(slug, facts)
        state = rules.PROBLEM_DECIDER.fold(facts)
        newest = rules.newest_version(slug, state)
        warnings = list(version.warnings)
        if state.untested_gpus:
            warnings.append(f"{untested_text(state.untested_gpus)}, and its pages say so")
        if publication.change.gpus is None and set(newest.gpus) != set(version.gpus):
            warnings.append(
                f"the leaderboard keeps its own GPU types {', '.join(newest.gpus)}, "
                "not the gpus of the files"
            )
        return PublishedVersion(
            slug=slug,
            problem_version=newest.number,
            digest=newest.digest,
            is_new=_has_version(result.facts),
            warnings=warnings,
        )

    async def would_create_version(self, publication: Publication, actor: str) -> bool:
        """Return whether publishing would create a version, without doing it.

        Raises the same errors as `publish`.
        """
        _, commands = await self._prepare(publication, actor)
        return _has_version(await self.decisions.preview(commands))

    async def _prepare(
        self, publication: Publication, actor: str
    ) -> tuple[ProblemVersion, list[AggregateCommand]]:
        slug = publication.slug
        if len(slug) > SLUG_LENGTH_MAX:
            raise Refused("bad_problem", f"a slug has at most {SLUG_LENGTH_MAX} characters", "slug")
        rules.check_slug(slug)
        gpus = publication.change.gpus or ()
        version = await asyncio.to_thread(
            lambda: compile_problem(
                slug, apply_settings(publication.files, publication.settings), gpus
            )
        )
        # Whoever says why there is no check says as well that nothing was run.
        allows_untested = publication.change.allows_untested or bool(publication.check.unchecked)
        change = replace(publication.change, at=self.ports.clock(), allows_untested=allows_untested)
        is_first = self._is_first(slug, actor)
        history = await self.ports.log.history(subjects.problem(slug))
        if not is_first:
            state = rules.PROBLEM_DECIDER.fold(event.fact for event in history)
            if state.contest and not publication.is_operator:
                await self.check_author_may_change(slug, state.contest)
            board = replace(publication.board, change=change)
            change = await add_known_effects(
                self.ports.lookups, board, state, self.ports.clock(), version.gpus
            )
        objection = publication.check.objection(version.digest)
        event = rules.version_event(version, publication.check)
        command = Publish(event, change, is_first=is_first, objection=objection)
        board_gpus = rules.canonical_gpus(publication.change.gpus or version.gpus, version.gpus)
        problem_command = AggregateCommand(
            subjects.problem(slug), rules.PROBLEM_DECIDER, command, history
        )
        return version, [problem_command, *quota_commands(publication.board, board_gpus)]

    def _is_first(self, slug: str, actor: str) -> bool:
        """Return whether an author claims the problem by publishing it.

        Checked again here, because another author may have published it since the request was
        authorized. Raises `Refused` for a problem of another author, and `Failed`.
        """
        access, account = self.feed.rights(), acting_account(actor)
        board = access.boards.get(slug)
        if account is None or "admin" in access.roles.get(account, ()):
            return False
        if board is None or not board.is_published:
            return True
        if access.account_of(board.owner or "") != account:
            raise Refused("not_yours", f"{slug} belongs to another author", "problem")
        return False

    async def _store_blobs(self, version: ProblemVersion, check: Check) -> None:
        """Store the blobs before the event that names them."""
        blobs = self.ports.blobs
        await blobs.put(version.manifest, JSON)
        for data in version.files.values():
            await blobs.put(data)
        for baseline in version.baselines:
            await blobs.put(baseline.data, rules.baseline_source(baseline).media)
        if check.report is not None:
            await blobs.put(check.report, JSON)


def _has_version(facts: Sequence[Fact]) -> bool:
    return any(isinstance(fact, ProblemPublished) for fact in facts)
