"""Publish problems and competition files, checked here first or unchecked by an operator."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from shared.api.leaderboards import Leaderboard, Leaderboards
from shared.api.moderation import RequestedRejudge
from shared.api.problems import FullProblem, PublishedVersion
from shared.checks.problem_files import ProblemFiles, compile_files
from shared.clock import now
from shared.errors import Failed, Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import count_text
from shared.problem_versions import load_problem
from shared.problems.competition import CompetitionProblem, parse_deadline
from shared.problems.warpboard_yml import NO_SETTINGS, PublishSettings, apply_settings
from warpboard.api import Api, Fields, Response
from warpboard.context import AppContext
from warpboard.domain.output import FAILED, OK
from warpboard.files import is_level, load_competition
from warpboard.screen import Screen
from warpboard.service.answers import retry_until_available
from warpboard.service.checks import examine_problem, load_known_check

REPEAT_S_MAX = 30.0
CREATED, UPDATED, SKIPPED, ERROR = "created", "updated", "skipped", "error"
SAME = "no changes"
UNKNOWN_PROBLEM = "unknown_problem"
DEADLINE, GPU = "deadline", "gpu"
FolderProblems = Sequence[tuple[Path, ProblemFiles]]


@dataclass(frozen=True)
class ProblemOptions:
    """Which problems, the name if it is a single one, and GPU types for problems without any.

    `unchecked` is an operator's reason to publish without a check, `is_strict` turns warnings into
    errors, `is_rejudged` runs the entries of the leaderboards again, and `is_forced` may drop GPU
    types with entries and accepts a deadline that is over. `allows_untested` accepts GPU types on
    which nothing was run. `settings` are written into the files; `fields` are settings of the
    leaderboards.
    """

    folders: Sequence[Path]
    slug: str | None = None
    gpus: tuple[str, ...] = ()
    unchecked: str = ""
    is_rejudged: bool = False
    is_dry: bool = False
    is_forced: bool = False
    allows_untested: bool = False
    settings: PublishSettings = NO_SETTINGS
    fields: Fields = field(default_factory=dict)

    @property
    def all_fields(self) -> Fields:
        """The form fields of every problem, with what its author confirms."""
        confirmed = {"force": self.is_forced, "allow_untested": self.allows_untested}
        return {**self.fields, **{name: "true" for name, is_set in confirmed.items() if is_set}}


def compile_folder(
    folder: Path, slug: str | None, gpus: tuple[str, ...], settings: PublishSettings = NO_SETTINGS
) -> ProblemFiles:
    """Compile a problem, on these GPU types if it names none. Raises Refused and names the folder.

    If its files name GPU types, others only concern its leaderboards, not its version.
    """
    try:
        return compile_for_gpus(folder, slug, (), settings)
    except Refused as refused:
        if refused.field != "gpus" or not gpus:
            raise
    return compile_for_gpus(folder, slug, gpus, settings)


def compile_for_gpus(
    folder: Path, slug: str | None, gpus: tuple[str, ...], settings: PublishSettings
) -> ProblemFiles:
    """Compile a problem for its competition's GPU types. Raises Refused and names the folder."""
    try:
        problem = load_problem(folder, slug, gpus)
        if settings == NO_SETTINGS:
            return problem
        return compile_files(problem.slug, apply_settings(problem.files, settings))
    except Refused as refused:
        # The reasons of a problem in one file begin with its name.
        is_named = folder.is_file() and refused.reason.startswith(folder.name)
        reason = refused.reason.removeprefix(folder.name) if is_named else f": {refused.reason}"
        raise Refused(refused.code, f"{folder}{reason}", refused.field) from refused


async def publish_paths(api: Api, context: AppContext, options: ProblemOptions) -> int:
    """Publish problems, and those of competition files and levels. Raises Refused and Failed."""
    deadline_at = parse_deadline(str(options.fields.get(DEADLINE, "")))
    check_ahead("", deadline_at, is_forced=options.is_forced)
    entries = [(path, load_competition(path)) for path in options.folders]
    if options.is_dry or any(problems for _, problems in entries):
        return await _publish_competitions(api, context, entries, options)
    if options.slug is not None and len(options.folders) != 1:
        raise Refused("usage", "--slug names one problem, not several")
    problems = []
    for folder in options.folders:
        problem = compile_folder(folder, options.slug, options.gpus, options.settings)
        problems.append((folder, replace(problem, gpus=options.gpus or problem.gpus)))
    return await _publish_all(api, context, problems, options)


async def _publish_all(
    api: Api, context: AppContext, problems: FolderProblems, options: ProblemOptions
) -> int:
    """Publish all problems, or none if a check finds errors. Raises Refused and Failed."""
    screen = context.screen
    approvals = await approve_problems(context, problems, options)
    answers = []
    with screen.live(["publish"]) as show:
        for index, ((_, problem), approval) in enumerate(zip(problems, approvals, strict=True)):
            show("publish", ProgressText(problem.slug, index, len(problems)))
            fields = {**approval, **options.all_fields}
            answers.append(await publish(api, screen, problem, fields))
    for (_, problem), answer in () if context.as_json else zip(problems, answers, strict=True):
        published = answer.value
        for warning in published.warnings:
            # Warnings about the files were shown when they were checked.
            if warning not in problem.warnings:
                screen.note(f"{published.slug}: {warning}")
        screen.say(published_line(published))
        if not options.is_rejudged:
            await _offer_rejudge(api, screen, published)
    rejudges = await _start_rejudges(api, answers) if options.is_rejudged else []
    lines = [line for rejudge in rejudges for line in rejudge_started_lines(rejudge.value)]
    if options.is_rejudged and not rejudges:
        lines = ["nothing stood under the version before: nothing runs again"]
    document = {
        "problems": [answer.document for answer in answers],
        "rejudges": [rejudge.document for rejudge in rejudges],
    }
    return context.show(document, lines)


async def publish(
    api: Api, screen: Screen, problem: ProblemFiles, fields: Fields
) -> Response[PublishedVersion]:
    """Publish one problem; the request is repeated while the platform does not answer."""
    show = screen.show_lines()
    return await retry_until_available(
        lambda: api.publish(problem.slug, problem.files, fields),
        REPEAT_S_MAX,
        lambda trouble: show(problem.slug, trouble),
    )


def published_line(published: PublishedVersion) -> str:
    """Describe in one line what happened to a problem."""
    if published.is_new:
        return f"{published.slug} version {published.problem_version} published"
    return f"{published.slug} unchanged: version {published.problem_version}"


async def approve_problems(
    context: AppContext, problems: FolderProblems, options: ProblemOptions
) -> list[Fields]:
    """Return for each problem the field that approves it: its check report, or a reason for none.

    Raises Refused `check_failed` after all are checked.
    """
    note = context.screen.note
    if options.unchecked:
        for folder, problem in problems:
            for warning in problem.warnings:
                note(f"{folder}: {warning}")
        return [{"unchecked": options.unchecked} for _ in problems]
    known = [load_known_check(context, folder, problem) for folder, problem in problems]
    results = [result for result in known if result is not None]
    if len(results) < len(problems):
        async with context.harness.warm() as harness:
            results = [
                result
                or await examine_problem(
                    *(context, harness, folder, problem),
                    place=f" problem {index + 1} of {len(problems)}" if len(problems) > 1 else "",
                )
                for index, (result, (folder, problem)) in enumerate(
                    zip(known, problems, strict=True)
                )
            ]
    for line in (line for result in results for line in result.lines):
        note(line)
    if failed := [result for result in results if not result.is_good]:
        errors = count_text(sum(result.errors for result in failed), "error")
        slugs = ", ".join(result.slug for result in failed)
        reason = f"the check of {slugs} found {errors}: fix what it reports"
        raise Refused("check_failed", f"{reason}; nothing was published")
    return [{"report": result.report.model_dump_json()} for result in results if result.report]


def rejudge_started_lines(rejudge: RequestedRejudge) -> list[str]:
    """Describe what a rejudge runs again, and how to see what it would change."""
    count = f"{rejudge.count} to run again under version {rejudge.to_version}"
    return [
        f"rejudge {rejudge.id}: {count} (they ran under {rejudge.from_version})",
        f"see what it would change: warpboard problem rejudge show {rejudge.id}",
    ]


async def _count_old_entries(api: Api, published: PublishedVersion) -> int:
    """Count the entries of the version before a new one, on all GPU types."""
    version = published.problem_version
    if not published.is_new or version == 1:
        return 0
    lines = (await api.get(Leaderboards, "leaderboards", problem=published.slug)).value.items
    return sum(line.entries_count for line in lines if line.problem_version == version - 1)


async def _offer_rejudge(api: Api, screen: Screen, published: PublishedVersion) -> None:
    """Offer a rejudge if the leaderboards of a new version start empty.

    The version is published by now, so failing to read the old one is no error.
    """
    entries = 0
    with suppress(Failed, Refused):
        entries = await _count_old_entries(api, published)
    if entries:
        version = published.problem_version
        screen.say(
            f"the leaderboards of version {version} are empty;"
            f" {count_text(entries, 'entry', 'entries')} of version {version - 1} can run"
            f' again: warpboard problem rejudge start {published.slug} --reason "…"'
        )


async def _start_rejudges(
    api: Api, answers: Sequence[Response[PublishedVersion]]
) -> list[Response[RequestedRejudge]]:
    started = []
    for published in (answer.value for answer in answers):
        if await _count_old_entries(api, published):
            reason = f"version {published.problem_version} was published"
            body = {"problem": published.slug, "reason": reason, "select": "best"}
            started.append(await api.act(RequestedRejudge, "POST", "admin", "rejudges", body=body))
    return started


@dataclass(frozen=True)
class PublishItem:
    """A problem to publish, its entry in a competition file, if any, and the fields of the options.

    The competition file takes precedence over the options.
    """

    folder: Path
    problem: ProblemFiles
    entry: CompetitionProblem | None
    options: Fields

    @property
    def slug(self) -> str:
        """The slug of the problem."""
        return self.problem.slug

    @property
    def set_gpus(self) -> Sequence[str]:
        """The GPU types for its leaderboards, if given apart from its files."""
        return (self.entry.gpus if self.entry else ()) or self.options.get(GPU, ())

    @property
    def gpus(self) -> Sequence[str]:
        """The GPU types that it is to have."""
        return self.problem.gpus

    @property
    def deadline_at(self) -> datetime | None:
        """The deadline that it is to have; None leaves it as it is."""
        entry_at = self.entry.deadline_at if self.entry else None
        return entry_at or parse_deadline(str(self.options.get(DEADLINE, "")))

    @property
    def other_names(self) -> list[str]:
        """The names of further settings, the deadline included if it is removed."""
        lifted = [DEADLINE] if self.options.get(DEADLINE) and not self.deadline_at else []
        return [*lifted, *sorted(self.options.keys() - {DEADLINE, GPU})]

    def fields(self) -> Fields:
        """Return its form fields."""
        at = self.deadline_at
        deadline = {DEADLINE: f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"} if at else {}
        return {**self.options, **deadline, **({GPU: list(self.gpus)} if self.set_gpus else {})}


@dataclass(frozen=True)
class PublishPlan:
    """What happens to a problem, why, and whether its version or GPU types need a check."""

    slug: str
    head: str
    summary: str
    is_new_version: bool = False
    needs_check: bool = False


def plan_problem(item: PublishItem, published: FullProblem | None, at: datetime) -> PublishPlan:
    """Decide what to do about a problem by comparing it with the published one."""
    gpus, deadline = ", ".join(item.gpus), deadline_text(item.deadline_at, at)
    if published is None:
        summary = f"new, on {gpus}, {deadline}"
        return PublishPlan(item.slug, CREATED, summary, is_new_version=True, needs_check=True)
    changes = []
    is_new = published.digest != item.problem.digest
    if is_new:
        version = published.problem_version
        changes.append(f"version {version + 1} in the place of {version}")
    has_new_gpus = (is_new or item.set_gpus) and sorted(item.gpus) != sorted(published.gpus)
    if has_new_gpus:
        changes.append(f"on {gpus}; it was on {', '.join(published.gpus)}")
    if item.deadline_at is not None and item.deadline_at != published.deadline_at:
        changes.append(f"{deadline}; it was {deadline_text(published.deadline_at, at)}")
    changes += [f"{', '.join(item.other_names)} as asked"] if item.other_names else []
    head = UPDATED if changes else SKIPPED
    summary = ", ".join(changes) or SAME
    return PublishPlan(item.slug, head, summary, is_new, needs_check=bool(is_new or has_new_gpus))


def deadline_text(until: datetime | None, at: datetime) -> str:
    """Say until when a problem takes submissions, at an instant."""
    if until is None:
        return "without a deadline"
    suffix = ", which is over" if until <= at else ""
    return f"until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC{suffix}"


async def _publish_competitions(
    api: Api,
    context: AppContext,
    entries: Sequence[tuple[Path, Sequence[CompetitionProblem]]],
    options: ProblemOptions,
) -> int:
    if options.slug is not None:
        raise Refused(
            "usage", "--slug names one problem; those of a competition or a level have their names"
        )
    items = _compile_all(context, entries, options)
    pairs = [(item, await _plan_item(api, item, options)) for item in items]
    outcomes = [plan for _, plan in pairs]
    if not options.is_dry:
        outcomes = await _publish_items(api, context, pairs, options)
    errors = [{"name": plan.slug, "error": plan.summary} for plan in outcomes if plan.head == ERROR]
    document = {
        "is_dry_run": options.is_dry,
        "created": [plan.slug for plan in outcomes if plan.head == CREATED],
        "updated": [plan.slug for plan in outcomes if plan.head == UPDATED],
        "skipped": [
            {"name": plan.slug, "reason": plan.summary} for plan in outcomes if plan.head == SKIPPED
        ],
        "errors": errors,
    }
    lines = [f"{plan.head:<7}  {plan.slug}: {plan.summary}" for plan in outcomes]
    note = "nothing was published, nor checked: leave --dry-run out to do it"
    context.show(document, lines, note if options.is_dry else "")
    return FAILED if errors else OK


def _compile_all(
    context: AppContext,
    entries: Sequence[tuple[Path, Sequence[CompetitionProblem]]],
    options: ProblemOptions,
) -> list[PublishItem]:
    """Compile all problems; report each that does not compile, and then publish none."""
    sources: list[tuple[Path, CompetitionProblem | None]] = []
    for path, problems in entries:
        sources += [(Path(entry.directory), entry) for entry in problems] or [(path, None)]
    items, invalid = [], []
    for folder, entry in sources:
        if entry and entry.warning:
            context.screen.note(f"{entry.slug}: {entry.warning}")
        try:
            slug, gpus = (entry.slug, entry.gpus) if entry else (None, ())
            compile_problem = compile_for_gpus if gpus else compile_folder
            problem = compile_problem(folder, slug, gpus or options.gpus, options.settings)
            problem = replace(problem, gpus=gpus or options.gpus or problem.gpus)
            items.append(PublishItem(folder, problem, entry, options.fields))
        except Refused as refused:
            context.screen.note(f"error: {refused.reason}")
            invalid.append(entry.slug if entry else folder.resolve().name)
    if invalid:
        count = count_text(len(sources), "problem")
        reason = f"{', '.join(invalid)} of {count} do not compile: fix what is reported of each"
        raise Refused("bad_problem", f"{reason}; nothing was published")
    slugs = [item.slug for item in items]
    if repeated := sorted({slug for slug in slugs if slugs.count(slug) > 1}):
        raise Refused("usage", f"{', '.join(repeated)}: named twice; each is published once")
    return items


async def _plan_item(api: Api, item: PublishItem, options: ProblemOptions) -> PublishPlan:
    """Plan a problem. Raises Refused if that would take something away."""
    try:
        published = (await api.get(FullProblem, "problems", item.slug)).value
    except Refused as refused:
        if refused.code != UNKNOWN_PROBLEM:
            raise
        published = None
    if published is None or published.deadline_at != item.deadline_at:
        check_ahead(item.slug, item.deadline_at, is_forced=options.is_forced)
    plan = plan_problem(item, published, now())
    if published and (item.set_gpus or plan.is_new_version) and not options.is_forced:
        desired_gpus = {name.lower() for name in item.gpus}
        for gpu in published.gpus:
            if gpu.lower() in desired_gpus:
                continue
            board = await api.get(Leaderboard, "leaderboards", item.slug, gpu, limit=1)
            if board.value.items:
                reason = f"{item.slug}: GPU type {gpu} would be dropped, and has entries"
                raise Refused(
                    "gpu_has_entries", f"{reason}: --force drops it; nothing was published"
                )
    return plan


def check_ahead(slug: str, deadline_at: datetime | None, *, is_forced: bool) -> None:
    """Refuse a new deadline that is over. Raises Refused."""
    if deadline_at is not None and deadline_at <= now() and not is_forced:
        subject = f"{slug}: the" if slug else "the"
        reason = f"{subject} deadline {deadline_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC is over"
        hint = "name one ahead, or say --force; nothing was published"
        raise Refused("deadline_over", f"{reason}: {hint}", DEADLINE)


async def _publish_items(
    api: Api,
    context: AppContext,
    pairs: Sequence[tuple[PublishItem, PublishPlan]],
    options: ProblemOptions,
) -> list[PublishPlan]:
    """Publish what changes, in order, after everything was checked; return what was done.

    Nothing is published after a refusal. Levels are long, so each of their problems is published
    as soon as it was checked. Raises Refused and Failed.
    """
    if all(map(is_level, options.folders)):
        return await _publish_level(api, context, pairs, options)
    new = [(item.folder, item.problem) for item, plan in pairs if plan.needs_check]
    fields_of_new = await approve_problems(context, new, options) if new else []
    approvals = {
        problem.slug: fields for (_, problem), fields in zip(new, fields_of_new, strict=True)
    }
    outcomes, refused_slug = [], ""
    with context.screen.live(["publish"]) as show:
        for index, (item, plan) in enumerate(pairs):
            outcome = plan
            if refused_slug:
                reason = f"{refused_slug} was refused before it"
                outcome = replace(plan, head=SKIPPED, summary=reason)
            elif plan.head != SKIPPED:
                show("publish", ProgressText(plan.slug, index, len(pairs)))
                approval = approvals.get(plan.slug, {})
                fields = {**approval, **options.all_fields, **item.fields()}
                try:
                    await publish(api, context.screen, item.problem, fields)
                except Refused as refused:
                    outcome = replace(plan, head=ERROR, summary=refused.reason)
                    refused_slug = plan.slug
            outcomes.append(outcome)
    return outcomes


async def _publish_level(
    api: Api,
    context: AppContext,
    pairs: Sequence[tuple[PublishItem, PublishPlan]],
    options: ProblemOptions,
) -> list[PublishPlan]:
    """Check and publish one problem after the other; one that is refused stops no other."""
    outcomes = []
    for index, (item, plan) in enumerate(pairs, 1):
        outcome = plan
        try:
            if plan.head != SKIPPED:
                new = [(item.folder, item.problem)] if plan.needs_check else []
                approval = {} if not new else (await approve_problems(context, new, options))[0]
                fields = {**approval, **options.all_fields, **item.fields()}
                await publish(api, context.screen, item.problem, fields)
        except Refused as refused:
            outcome = replace(plan, head=ERROR, summary=refused.reason)
        context.screen.note(f"{index} of {len(pairs)}: {plan.slug}: {outcome.head}")
        outcomes.append(outcome)
    return outcomes
