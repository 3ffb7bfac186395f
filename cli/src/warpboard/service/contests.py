"""Publish problems and contest files, which give each problem a deadline and GPU types."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from shared.api.leaderboards import Leaderboard
from shared.api.problems import FullProblem
from shared.clock import now
from shared.errors import Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import count_text
from shared.problems.contest import ContestProblem, parse_deadline
from warpboard.domain.exit_codes import FAILED, OK
from warpboard.service.compilation import (
    ProblemOptions,
    compile_folder,
    compile_for_gpus,
    parse_manifest,
    problem_digest,
)
from warpboard.service.context import AppContext
from warpboard.service.ports import Api, Fields, ProblemFiles, PublishApproval, ReadApi
from warpboard.service.publication import approve_problems, publish, publish_problems

CREATED, UPDATED, SKIPPED = "created", "updated", "skipped"
SAME = "no changes"
UNKNOWN = "unknown_problem"
DEADLINE, GPU = "deadline", "gpu"
UNTOUCHED = PublishApproval()


@dataclass(frozen=True)
class PublishPlan:
    """What happens to a problem, and whether its files are new to the platform."""

    slug: str
    head: str
    what: str
    is_new_version: bool = False


@dataclass
class PublishSummary:
    """What happened to every problem of a contest, by outcome."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    errors: list[dict[str, str]] = field(default_factory=list)

    def tell(self, plan: PublishPlan) -> None:
        """Add a problem under its outcome."""
        if plan.head == SKIPPED:
            self.skip(plan.slug, plan.what)
        else:
            (self.created if plan.head == CREATED else self.updated).append(plan.slug)

    def skip(self, slug: str, reason: str) -> None:
        """Add a problem that stays as it is."""
        self.skipped.append({"name": slug, "reason": reason})


@dataclass(frozen=True)
class DesiredProblem:
    """A problem as it is to be; without `deadline_at` the deadline stays as it is.

    With `has_gpus` its leaderboards get these GPU types, whatever its files name. `others` are the
    names of further settings.
    """

    slug: str
    digest: str
    gpus: Sequence[str]
    deadline_at: datetime | None = None
    has_gpus: bool = False
    others: Sequence[str] = ()


def plan_problem(
    desired: DesiredProblem, published: FullProblem | None, at: datetime
) -> PublishPlan:
    """Decide what to do about a problem by comparing it with the published one.

    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> plan_problem(DesiredProblem("p", "d", ["CPU"]), None, at).what
    'new, on CPU, without a deadline'
    """
    deadline = deadline_text(desired.deadline_at, at)
    if published is None:
        summary = f"new, on {', '.join(desired.gpus)}, {deadline or 'without a deadline'}"
        return PublishPlan(desired.slug, CREATED, summary, is_new_version=True)
    changes = []
    is_new = published.digest != desired.digest
    if is_new:
        changes.append(
            f"version {published.problem_version + 1} in the place of {published.problem_version}"
        )
    if (is_new or desired.has_gpus) and sorted(desired.gpus) != sorted(published.gpus):
        changes.append(f"on {', '.join(desired.gpus)}; it was on {', '.join(published.gpus)}")
    if desired.deadline_at is not None and desired.deadline_at != published.deadline_at:
        before = deadline_text(published.deadline_at, at) or "without a deadline"
        changes.append(f"{deadline}; it was {before}")
    changes += [f"{', '.join(desired.others)} as asked"] if desired.others else []
    head = UPDATED if changes else SKIPPED
    return PublishPlan(desired.slug, head, ", ".join(changes) or SAME, is_new_version=is_new)


def deadline_text(until: datetime | None, at: datetime) -> str:
    """Describe a deadline in UTC; "" if there is none."""
    if until is None:
        return ""
    suffix = ", which is over" if until <= at else ""
    return f"until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC{suffix}"


@dataclass(frozen=True)
class PublishItem:
    """A problem to publish, its entry in the contest file, if any, and the given options."""

    folder: Path
    problem: ProblemFiles
    listed: ContestProblem | None
    asked: Fields

    @property
    def wanted(self) -> DesiredProblem:
        """The problem as it is to be."""
        deadline_option = str(self.asked.get(DEADLINE, ""))
        deadline_at = (self.listed.deadline_at if self.listed else None) or parse_deadline(
            deadline_option
        )
        lifted = [DEADLINE] if deadline_option and not deadline_at else []
        return DesiredProblem(
            self.problem.slug,
            problem_digest(self.problem),
            self.gpus or parse_manifest(self.problem)["gpus"],
            deadline_at,
            has_gpus=bool(self.gpus),
            others=[*lifted, *sorted(self.asked.keys() - {DEADLINE, GPU})],
        )

    @property
    def gpus(self) -> Sequence[str]:
        """The GPU types for its leaderboards, if given apart from its files."""
        return (self.listed.gpus if self.listed else ()) or self.asked.get(GPU, ())

    def fields(self) -> Fields:
        """Return its form fields; the contest file takes precedence over options."""
        deadline_at = self.wanted.deadline_at
        deadline_field = (
            {DEADLINE: f"{deadline_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"} if deadline_at else {}
        )
        return {**self.asked, **deadline_field, **({GPU: list(self.gpus)} if self.gpus else {})}


async def publish_paths(api: Api, context: AppContext, options: ProblemOptions) -> int:
    """Publish problems, and all problems of contest files. Raises Refused and Failed."""
    _check_ahead("", parse_deadline(str(options.fields.get(DEADLINE, ""))), options)
    entries = [(path, context.disk.contest(path)) for path in options.folders]
    if not options.is_dry and not any(problems for _, problems in entries):
        return await publish_problems(api, context, options, force_fields(options))
    if options.slug is not None:
        raise Refused(
            "usage", "--slug names one problem, but a contest file names its own problems"
        )
    items = _compile_all(context, entries, options)
    pairs = [(item, await _plan_item(api, item, options)) for item in items]
    if options.is_dry:
        summary = PublishSummary()
        for _, plan in pairs:
            summary.tell(plan)
    else:
        summary = await _publish_items(api, context, pairs, options)
    context.show(
        {"is_dry_run": options.is_dry, **asdict(summary)},
        _summary_lines([plan for _, plan in pairs], summary),
        "nothing was published, nor checked: leave --dry-run out to do it"
        if options.is_dry
        else "",
    )
    return FAILED if summary.errors else OK


def force_fields(options: ProblemOptions) -> dict[str, str]:
    """Return the form field that permits dropping GPU types and deadlines that are over."""
    return {"force": "true"} if options.is_forced else {}


def _compile_all(
    context: AppContext,
    entries: Sequence[tuple[Path, Sequence[ContestProblem]]],
    options: ProblemOptions,
) -> list[PublishItem]:
    """Compile all problems; report each that does not compile, and then publish none."""
    sources: list[tuple[Path, ContestProblem | None]] = []
    for path, problems in entries:
        sources += [(Path(entry.directory), entry) for entry in problems] or [(path, None)]
    items, invalid = [], []
    for folder, entry in sources:
        if entry and entry.warning:
            context.screen.note(f"{entry.slug}: {entry.warning}")
        try:
            slug, gpus = (entry.slug, entry.gpus) if entry else (None, ())
            compile_problem = compile_for_gpus if gpus else compile_folder
            problem = compile_problem(
                context.disk, folder, slug, gpus or options.gpus, options.settings
            )
            items.append(PublishItem(folder, problem, entry, options.fields))
        except Refused as refused:
            context.screen.note(f"error: {refused.reason}")
            invalid.append(entry.slug if entry else folder.name)
    if invalid:
        count = count_text(len(sources), "problem")
        reason = f"{', '.join(invalid)} of {count} do not compile: fix what is reported of each"
        raise Refused("bad_problem", f"{reason}; nothing was published")
    slugs = [item.problem.slug for item in items]
    if repeated := sorted({slug for slug in slugs if slugs.count(slug) > 1}):
        raise Refused("usage", f"{', '.join(repeated)}: named twice; each is published once")
    return items


async def _plan_item(api: ReadApi, item: PublishItem, options: ProblemOptions) -> PublishPlan:
    """Plan a problem. Raises Refused if that would take something away."""
    desired = item.wanted
    try:
        published = (await api.get(FullProblem, "problems", desired.slug)).value
    except Refused as refused:
        if refused.code != UNKNOWN:
            raise
        published = None
    if published is None or published.deadline_at != desired.deadline_at:
        _check_ahead(desired.slug, desired.deadline_at, options)
    are_gpus_set = desired.has_gpus or (
        published is not None and published.digest != desired.digest
    )
    desired_gpus = {name.lower() for name in desired.gpus}
    for gpu in published.gpus if published and are_gpus_set and not options.is_forced else ():
        if gpu.lower() in desired_gpus:
            continue
        board = await api.get(Leaderboard, "leaderboards", desired.slug, gpu, limit=1)
        if board.value.items:
            reason = f"{desired.slug}: GPU type {gpu} would be dropped, and has entries"
            raise Refused("gpu_has_entries", f"{reason}: --force drops it; nothing was published")
    return plan_problem(desired, published, now())


def _check_ahead(slug: str, deadline_at: datetime | None, options: ProblemOptions) -> None:
    """Refuse a new deadline that is over. Raises Refused."""
    if deadline_at is not None and deadline_at <= now() and not options.is_forced:
        subject = f"{slug}: the" if slug else "the"
        reason = f"{subject} deadline {deadline_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC is over"
        hint = "name one ahead, or say --force; nothing was published"
        raise Refused("deadline_over", f"{reason}: {hint}", DEADLINE)


async def _publish_items(
    api: Api,
    context: AppContext,
    pairs: Sequence[tuple[PublishItem, PublishPlan]],
    options: ProblemOptions,
) -> PublishSummary:
    """Publish what changes, in order, after everything was checked. Raises Refused and Failed."""
    new = [(item.folder, item.problem) for item, plan in pairs if plan.is_new_version]
    approvals = dict(
        zip(
            (problem.slug for _, problem in new),
            await approve_problems(context, new, options) if new else (),
            strict=True,
        )
    )
    summary = PublishSummary()
    with context.screen.live(["publish"]) as live:
        for index, (item, plan) in enumerate(pairs):
            if summary.errors:
                summary.skip(plan.slug, f"{summary.errors[0]['name']} was refused before it")
            elif plan.head == SKIPPED:
                summary.tell(plan)
            else:
                live.show("publish", ProgressText(plan.slug, index, len(pairs)))
                approval = approvals.get(plan.slug, UNTOUCHED)
                fields = {**item.fields(), **force_fields(options)}
                try:
                    await publish(api, context.screen, item.problem, approval, fields)
                    summary.tell(plan)
                except Refused as refused:
                    summary.errors.append({"name": plan.slug, "error": refused.reason})
    return summary


def _summary_lines(plans: Sequence[PublishPlan], summary: PublishSummary) -> Iterator[str]:
    """Yield a line for each problem, in order."""
    errors = {entry["name"]: entry["error"] for entry in summary.errors}
    skipped = {entry["name"]: entry["reason"] for entry in summary.skipped}
    for plan in plans:
        if plan.slug in errors:
            yield f"error    {plan.slug}: {errors[plan.slug]}"
        elif plan.slug in skipped:
            yield f"skipped  {plan.slug}: {skipped[plan.slug]}"
        else:
            yield f"{plan.head}  {plan.slug}: {plan.what}"
