"""Publish problems that passed a check here, or that an operator publishes unchecked."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from shared.api.leaderboards import Leaderboards
from shared.api.moderation import RequestedRejudge
from shared.api.problems import PublishedVersion
from shared.errors import Failed, Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import count_text
from warpboard.domain.checks import CheckResult
from warpboard.domain.names import kernelbench_slug
from warpboard.screen import Screen
from warpboard.service.checks import examine_problem, load_known_check
from warpboard.service.compilation import ProblemOptions, compile_folder
from warpboard.service.context import AppContext
from warpboard.service.ports import NO_FIELDS, Api, Fields, ProblemFiles, PublishApproval, Response
from warpboard.service.waiting import retry_until_available

REPEAT_S_MAX = 30.0

FolderProblems = Sequence[tuple[Path, ProblemFiles]]


async def publish_problems(
    api: Api, context: AppContext, options: ProblemOptions, fields: Fields = NO_FIELDS
) -> int:
    """Publish each problem after all were checked. Raises Refused and Failed."""
    if options.slug is not None and len(options.folders) != 1:
        raise Refused("usage", "--slug names one problem, not several")
    compile_options = (options.slug, options.gpus, options.settings)
    problems = [
        (folder, compile_folder(context.disk, folder, *compile_options))
        for folder in options.folders
    ]
    return await publish_all(api, context, problems, options, {**options.fields, **fields})


async def publish_kernelbench(
    api: Api, context: AppContext, level: int, options: ProblemOptions
) -> int:
    """Publish a level of KernelBench after all of it was checked. Raises Refused and Failed."""
    (folder,) = options.folders
    files = {kernelbench_slug(level, path.stem): path for path in context.disk.level(folder, level)}
    problems = [
        (path, compile_folder(context.disk, path, slug, options.gpus))
        for slug, path in files.items()
    ]
    return await publish_all(api, context, problems, options)


async def publish_all(
    api: Api,
    context: AppContext,
    problems: FolderProblems,
    options: ProblemOptions,
    fields: Fields = NO_FIELDS,
) -> int:
    """Publish all problems, or none if a check finds errors. Raises Refused and Failed."""
    screen = context.screen
    approvals = await approve_problems(context, problems, options)
    answers = []
    with screen.live(["publish"]) as live:
        for index, ((_, problem), approval) in enumerate(zip(problems, approvals, strict=True)):
            live.show("publish", ProgressText(problem.slug, index, len(problems)))
            answers.append(await publish(api, screen, problem, approval, fields))
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
    """Rejudge the entries of the previous version of each problem. Raises Refused and Failed."""
    started = []
    for published in (answer.value for answer in answers):
        if await _count_old_entries(api, published):
            reason = f"version {published.problem_version} was published"
            body = {"problem": published.slug, "reason": reason, "select": "best"}
            started.append(await api.act(RequestedRejudge, "POST", "admin", "rejudges", body=body))
    return started


async def approve_problems(
    context: AppContext, problems: FolderProblems, options: ProblemOptions
) -> list[PublishApproval]:
    """Return the approval for each problem. Raises Refused `check_failed` after all are checked."""
    if options.unchecked:
        for folder, problem in problems:
            for warning in problem.warnings:
                context.screen.note(f"{folder}: {warning}")
        return [PublishApproval(unchecked=options.unchecked) for _ in problems]
    results = [load_known_check(context, folder, problem) for folder, problem in problems]
    if None in results:
        async with context.harness.warm() as warm:
            warm_context = replace(context, load_harness=lambda: warm)
            for index, (folder, problem) in enumerate(problems):
                results[index] = results[index] or await examine_problem(
                    warm_context, folder, problem
                )
    return list(
        _approve_results(context.screen, [result for result in results if result is not None])
    )


def _approve_results(screen: Screen, results: Sequence[CheckResult]) -> Iterator[PublishApproval]:
    for result in results:
        for line in result.lines:
            screen.note(line)
    if failed := [result for result in results if not result.is_good]:
        errors = count_text(sum(result.errors for result in failed), "error")
        slugs = ", ".join(result.slug for result in failed)
        reason = f"the check of {slugs} found {errors}: fix what it reports"
        raise Refused("check_failed", f"{reason}; nothing was published")
    for result in results:
        assert result.report is not None
        yield PublishApproval(report=result.report.model_dump_json())


async def publish(
    api: Api,
    screen: Screen,
    problem: ProblemFiles,
    approval: PublishApproval,
    fields: Fields = NO_FIELDS,
) -> Response[PublishedVersion]:
    """Publish one problem; the request is repeated while the platform does not answer."""
    return await retry_until_available(
        lambda: api.publish(problem.slug, problem.files, approval, fields),
        REPEAT_S_MAX,
        lambda trouble: screen.note(f"warpboard: {trouble}"),
    )


def published_line(published: PublishedVersion) -> str:
    """Describe in one line what happened to a problem."""
    if published.is_new:
        return f"{published.slug} version {published.problem_version} published"
    return f"{published.slug} unchanged: version {published.problem_version}"
