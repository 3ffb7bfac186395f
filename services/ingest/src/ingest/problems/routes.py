"""Publishing problems: the form with files, check report and leaderboard settings."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response, UploadFile
from msgspec import structs
from pydantic import Field

from harness.vocabulary import CPU_TYPE
from ingest.access.feed import AccessFeed
from ingest.access.rules import check_scope
from ingest.accounts.rules import ACTOR
from ingest.baselines import Baselines, baseline_event, baseline_source
from ingest.decisions import AggregateCommand, Decisions
from ingest.http.requests import Authenticator, FormModel, Text
from ingest.leaderboards import LeaderboardChange, Leaderboards
from ingest.ports import Ports
from ingest.problems import rules
from ingest.problems.rules import Change
from ingest.quotas.rules import QUOTAS_MAX, parse_quota
from shared import subjects
from shared.api.fields import PublishWhen, SourceVisible, Visibility
from shared.api.problems import PublishedVersion
from shared.blobs import describe_blob
from shared.errors import Refused
from shared.events import Fact, ProblemPublished, QuotaLimitSet, Requires, Roof
from shared.http import DocumentedRoute
from shared.presentation.units import untested_text
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.contest import is_zoneless, parse_deadline
from shared.problems.report import CheckReport, read_report, require_clean
from shared.problems.roofline import floors_us
from shared.problems.task_yml import GPUS_MAX, GpuName
from shared.problems.warpboard_yml import NO_SETTINGS, PublishSettings, apply_settings
from shared.ranking_rules import RankingRule

SLUG_LENGTH_MAX = 64
JSON = "application/json"
# Every agent has this much: a harness and a submission that imports torch need it.
USUAL_MEMORY_MIB = 2048
FILES_MAX = 256
SAME: dict[int | str, dict[str, Any]] = {200: {"description": "This version already exists."}}
NEVER = "none"
WHY = "published so"
Gpus = Annotated[list[GpuName], Field(max_length=GPUS_MAX)]
Texts = Annotated[list[str], Field(max_length=QUOTAS_MAX)]
Filled = Annotated[str, Field(min_length=1)]
Line = Annotated[str, Field(min_length=1, max_length=200)]


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
        access, account = self.feed.now(), actor.removeprefix(ACTOR)
        board = access.boards.get(slug)
        if not actor.startswith(ACTOR) or "admin" in access.roles.get(account, ()):
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


class PublicationForm(FormModel):
    """The files of a problem, its check report and its settings."""

    files: list[UploadFile]
    slug: Filled
    report: Filled | None = None
    unchecked: Text | None = None
    visibility: Visibility | None = None
    deadline: Annotated[str | None, Field(max_length=40)] = None
    gpu: Gpus | None = None
    quota: Texts | None = None
    force: bool = False
    allow_untested: bool = False
    title: Line | None = None
    ranking_by: RankingRule | None = None
    source_visible: SourceVisible | None = None
    publish: PublishWhen | None = None
    consent: Filled | None = None
    licence_problem: Line | None = None
    licence_submissions: Line | None = None

    def check(self) -> Check:
        """Return the check. Raises `Refused` for a report together with a reason for none."""
        if self.report is not None and self.unchecked is not None:
            message = "send either report or unchecked, not both"
            raise Refused("invalid_request", message, "unchecked")
        return Check(None if self.report is None else self.report.encode(), self.unchecked or "")

    def settings(self) -> PublishSettings:
        """Return the settings that replace those of the files."""
        licences = {"problem": self.licence_problem, "submissions": self.licence_submissions}
        licence = {name: value for name, value in licences.items() if value is not None}
        consent = None if self.consent is None else self.consent.encode()
        return PublishSettings(
            self.title, self.ranking_by, self.source_visible, self.publish, licence or None, consent
        )

    def change(self, ends_at: datetime | None) -> Change:
        """Return the leaderboard settings; the deadline is already parsed."""
        return Change(
            WHY,
            self.visibility,
            has_deadline=None if self.deadline is None else ends_at is not None,
            deadline_at=ends_at,
            gpus=tuple(self.gpu) if self.gpu else None,
            is_forced=self.force,
            allows_untested=self.allow_untested,
        )


def read_deadline(text: str) -> tuple[datetime | None, list[str]]:
    """Return the deadline in a text, None for the word `none`, with warnings.

    Raises `Refused`.

    >>> read_deadline("2026-12-01 18:00")[1]
    ['the deadline 2026-12-01 18:00 has no time zone: it is taken as 2026-12-01T18:00:00+00:00']
    """
    if text == NEVER:
        return None, []
    deadline_at = parse_deadline(text)
    if deadline_at is None:
        message = (
            f"{text!r} is not a deadline: write 2026-12-01T18:00:00Z, or 2026-12-01 18:00 in UTC"
        )
        raise Refused("invalid_request", f"{message}; {NEVER} removes the deadline", "deadline")
    if not is_zoneless(text):
        return deadline_at, []
    return deadline_at, [
        f"the deadline {text} has no time zone: it is taken as {deadline_at.isoformat()}"
    ]


def problems_router(problems: Problems, auth: Authenticator) -> APIRouter:
    """The route of authors."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)

    @router.post("/problems", status_code=201, responses=SAME)
    async def publish(
        form: Annotated[PublicationForm, Form(media_type="multipart/form-data")],
        response: Response,
        request: Request,
    ) -> PublishedVersion:
        """Publish a task.yml directory as the newest version of a problem.

        A new version needs the `report` of its check; only operators may send the reason in
        `unchecked` instead. If the check ran nothing on any GPU type of the leaderboards, send
        `allow_untested`. A new problem is public unless it is `closed`; you cannot publish a
        problem of another author. Leaderboard settings that are not sent stay as they are.
        """
        author = await auth.author(request, form.slug)
        if len(form.files) > FILES_MAX:
            raise Refused("bad_problem", f"a problem has at most {FILES_MAX} files", "files")
        check = form.check()
        if check.unchecked:
            check_scope(author, "admin:problems")
        ends_at, warnings = read_deadline(form.deadline) if form.deadline else (None, [])
        publication = Publication(
            slug=form.slug,
            files={file.filename or "": await file.read() for file in form.files},
            check=check,
            settings=form.settings(),
            change=form.change(ends_at),
            quotas=tuple(parse_quota(form.slug, quota, WHY) for quota in form.quota or ()),
            is_operator=author.may("admin:problems"),
        )
        published = await problems.publish(publication, author.actor)
        if not published.is_new:
            response.status_code = 200
        return structs.replace(published, warnings=[*published.warnings, *warnings])

    return router
