"""Publishes problems: files, check report and leaderboard settings."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from harness.vocabulary import CPU_TYPE
from ingest.baselines import Baselines, baseline_event, baseline_source
from ingest.decisions import AggregateCommand, Decisions
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import acting_account
from ingest.leaderboards import LeaderboardChange, Leaderboards
from ingest.ports import Ports
from ingest.problems import rules
from shared import subjects
from shared.api.problems import PublishedVersion
from shared.blobs import describe_blob
from shared.errors import Refused
from shared.event_log import Decider
from shared.events import Fact, ProblemPublished, QuotaLimitSet, Requires, Roof
from shared.presentation.units import untested_text
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.report import CheckReport, read_report, require_clean
from shared.problems.roofline import floors_us
from shared.problems.warpboard_yml import NO_SETTINGS, PublishSettings, apply_settings

SLUG_LENGTH_MAX = 64
JSON = "application/json"
# Every agent has this much: a harness and a submission that imports torch need it.
USUAL_MEMORY_MIB = 2048


async def load_problem(
    slug: str,
    load: Callable[
        [str, Decider[rules.ProblemCommand, rules.Problem, Fact]], Awaitable[rules.Problem]
    ],
) -> rules.Problem:
    """Load a problem, an empty one for a slug that cannot exist. Raises `Failed`."""
    try:
        agg = subjects.problem(slug)
    except ValueError:
        return rules.Problem()
    return await load(agg, rules.problems)


@dataclass(frozen=True)
class Check:
    """The check of a problem: its report, or the reason why there is none."""

    report: bytes | None = None
    unchecked: str = ""

    def _read(self) -> CheckReport | None:
        if self.report is None or self.unchecked:
            return None
        try:
            return read_report(self.report)
        except Refused:
            # `objection` reports it.
            return None

    @property
    def memory_mib(self) -> int:
        """Return the measured memory that a run needs; 0 if any machine has enough."""
        report = self._read()
        return report.memory_mib if report and report.memory_mib > USUAL_MEMORY_MIB else 0

    def tested_gpus(self, digest: str) -> list[str]:
        """Return the GPU types on which a version was run and passed."""
        report = self._read()
        is_valid = report is not None and report.is_clean and report.digest == digest
        return list(report.tested_gpus) if report and is_valid else []

    def objection(self, digest: str) -> Refused | None:
        """Return why a version cannot be published, or None."""
        if self.unchecked:
            return None
        if self.report is None:
            message = (
                "a new version needs its check report in the field report: run "
                "`warpboard problem publish`, or send the output of `warpboard problem check`"
            )
            return Refused("check_missing", message, "report")
        try:
            require_clean(read_report(self.report), digest)
        except Refused as refused:
            return refused
        return None


@dataclass(frozen=True)
class Publication:
    """The files and settings of a problem; None in `change` leaves a setting as it is."""

    slug: str
    files: Mapping[str, bytes]
    check: Check = Check()
    settings: PublishSettings = NO_SETTINGS
    change: rules.Change = rules.DEFAULT_CHANGE
    quotas: tuple[QuotaLimitSet, ...] = ()
    is_operator: bool = False

    @property
    def board(self) -> LeaderboardChange:
        """Return the change to its leaderboards."""
        return LeaderboardChange(self.slug, self.change, self.quotas, self.is_operator)


@dataclass(frozen=True)
class Problems:
    """Publishes problems."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed
    boards: Leaderboards
    baselines: Baselines

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
        state = rules.problems.fold(facts)
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
            state = rules.problems.fold(event.fact for event in history)
            board = replace(publication.board, change=change)
            change = await self.boards.with_known_effects(board, state, version.gpus)
        objection = publication.check.objection(version.digest)
        event = _version_event(version, publication.check)
        command = rules.Publish(event, change, is_first=is_first, objection=objection)
        board_gpus = rules.canonical_gpus(publication.change.gpus or version.gpus, version.gpus)
        problem_command = AggregateCommand(subjects.problem(slug), rules.problems, command, history)
        return version, [problem_command, *publication.board.limits(board_gpus)]

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
        if board.owner != account:
            raise Refused("not_yours", f"{slug} belongs to another author", "problem")
        return False

    async def _store_blobs(self, version: ProblemVersion, check: Check) -> None:
        """Store the blobs before the event that names them."""
        blobs = self.ports.blobs
        await blobs.put(version.manifest, JSON)
        for data in version.files.values():
            await blobs.put(data)
        for baseline in version.baselines:
            await blobs.put(baseline.data, baseline_source(baseline).media)
        if check.report is not None:
            await blobs.put(check.report, JSON)


def _has_version(facts: Sequence[Fact]) -> bool:
    return any(isinstance(fact, ProblemPublished) for fact in facts)


def _version_event(version: ProblemVersion, check: Check) -> ProblemPublished:
    """Return the event of a version, with the digests its blobs will have."""
    needs = version.requires
    # GPU memory is not measured: on GPUs only the declared requirement counts.
    measured_mib = check.memory_mib if CPU_TYPE in version.gpus else 0
    return ProblemPublished(
        number=0,
        digest=version.digest,
        title=version.title,
        manifest=describe_blob(version.manifest, JSON),
        files={name: describe_blob(data) for name, data in version.files.items()},
        gpus=list(version.gpus),
        cases_count=dict(version.cases_count),
        ranking_by=version.ranking_by,
        budgets_s=dict(version.budgets_s),
        source_bytes_max=version.source_bytes_max,
        languages=list(version.languages),
        consent=version.consent,
        requires=Requires(
            count=needs.count,
            memory_mib=max(needs.memory_mib, measured_mib),
            toolchains=list(needs.toolchains),
            sandbox_memory_mib=needs.sandbox_memory_mib,
        ),
        source_visible=version.source_visible,
        publish=version.publish,
        report=None if check.report is None else describe_blob(check.report, JSON),
        unchecked=check.unchecked,
        baselines=[baseline_event(entry) for entry in version.baselines],
        milestones=list(version.milestones),
        roofs=[
            Roof(
                case=work.case,
                bytes=work.bytes,
                flops=work.flops,
                dtype=work.dtype,
                # From the current table of GPU types.
                floors_us=floors_us(work),
            )
            for work in version.works
        ],
        lang=version.lang,
        tested_gpus=check.tested_gpus(version.digest),
    )
