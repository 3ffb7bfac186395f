"""Publishing problems, after they were checked here, or where an operator says why not."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from shared.errors import Failed, Refused
from warpboard.domain.answers import Answer, read
from warpboard.domain.checks import Checked
from warpboard.domain.names import kernelbench_slug
from warpboard.domain.outcome import OK
from warpboard.domain.problems import NO_FIELDS, Fields, Published
from warpboard.domain.progress import News
from warpboard.domain.units import count_text
from warpboard.service import reviewing
from warpboard.service.checking import Tools, examined, known
from warpboard.service.compiling import Asked, compiled
from warpboard.service.patience import persist
from warpboard.service.ports import Api, ProblemFiles, Screen, Voucher

REPEAT_S_MAX = 30.0

Found = Sequence[tuple[Path, ProblemFiles]]


async def add(api: Api, tools: Tools, asked: Asked, said: Fields = NO_FIELDS) -> int:
    """Publish each problem, after all of them were checked. Errors: Refused; Failed."""
    if asked.slug is not None and len(asked.folders) != 1:
        raise Refused("usage", "--slug names one problem, not several")
    told = (asked.slug, asked.gpus, asked.settings)
    found = [(one, compiled(tools.disk, one, *told)) for one in asked.folders]
    return await publish_all(api, tools, found, asked, {**asked.fields, **said})


async def add_kernelbench(api: Api, tools: Tools, level: int, asked: Asked) -> int:
    """Publish a level of KernelBench, after all of it was checked. Errors: Refused; Failed."""
    (folder,) = asked.folders
    files = {kernelbench_slug(level, path.stem): path for path in tools.disk.level(folder, level)}
    found = [(path, compiled(tools.disk, path, slug, asked.gpus)) for slug, path in files.items()]
    return await publish_all(api, tools, found, asked)


async def publish_all(
    api: Api, tools: Tools, found: Found, asked: Asked, said: Fields = NO_FIELDS
) -> int:
    """Publish what compiles, all or nothing where a check finds errors. Errors: Refused; Failed."""
    screen = tools.screen
    vouchers = await vouched(tools, found, asked)
    answers = []
    with screen.live(["publish"]) as live:
        for done, ((_, problem), voucher) in enumerate(zip(found, vouchers, strict=True)):
            live.show("publish", News(problem.slug, done, len(found)))
            answers.append(await publish(api, screen, problem, voucher, said))
    for (_, problem), answer in () if asked.as_json else zip(found, answers, strict=True):
        published = read(answer, Published)
        # What is wrong with the files was said when they were checked.
        for warning in [one for one in published.warnings if one not in problem.warnings]:
            screen.note(f"{published.slug}: {warning}")
        screen.say(added(published))
        if not asked.is_rejudged:
            await _offer_rejudge(api, screen, published)
    rejudges = await _rejudge(api, answers) if asked.is_rejudged else []
    if asked.as_json:
        screen.json({"problems": answers, "rejudges": rejudges})
        return OK
    for rejudge in rejudges:
        reviewing.say_started(screen, rejudge)
    if asked.is_rejudged and not rejudges:
        screen.say("nothing stood under the version before: nothing runs again")
    return OK


async def _old_entries(api: Api, published: Published) -> int:
    """How many entries the version before a new one has, on all GPU types."""
    if not published.is_new or published.number == 1:
        return 0
    found = await api.get("leaderboards", problem=published.slug)
    lines = [line for line in found["items"] if line["problem_number"] == published.number - 1]
    return sum(line["entries_count"] for line in lines)


async def _offer_rejudge(api: Api, screen: Screen, published: Published) -> None:
    """Offer a rejudge where the leaderboards of a new version begin empty.

    The version is published by now, so a failure to look at the old one is no error.
    """
    entries = 0
    with suppress(Failed, Refused):
        entries = await _old_entries(api, published)
    if entries:
        screen.say(
            f"the leaderboards of version {published.number} are empty;"
            f" {count_text(entries, 'entry', 'entries')} of version {published.number - 1} can run"
            f' again: warpboard problem rejudge start {published.slug} --reason "…"'
        )


async def _rejudge(api: Api, answers: Sequence[Answer]) -> list[Answer]:
    """Run what stands under the version before of each problem again. Errors: Refused; Failed."""
    started = []
    for published in (read(answer, Published) for answer in answers):
        if await _old_entries(api, published):
            reason = f"version {published.number} was published"
            said = {"problem": published.slug, "reason": reason, "select": "best"}
            started.append(await api.act("POST", "admin", "rejudges", said=said))
    return started


async def vouched(tools: Tools, found: Found, asked: Asked) -> list[Voucher]:
    """Why each of them may be published. Errors: Refused `check_failed`, after all are checked."""
    if asked.unchecked:
        for folder, problem in found:
            for warning in problem.warnings:
                tools.screen.note(f"{folder}: {warning}")
        return [Voucher(unchecked=asked.unchecked) for _ in found]
    made = [known(tools, folder, problem) for folder, problem in found]
    if None in made:
        async with tools.harness.warm() as warm:
            here = replace(tools, harness=warm)
            for index, (folder, problem) in enumerate(found):
                made[index] = made[index] or await examined(here, folder, problem)
    return list(_vouchers(tools.screen, [one for one in made if one is not None]))


def _vouchers(screen: Screen, checked: Sequence[Checked]) -> Iterator[Voucher]:
    for one in checked:
        for line in one.lines:
            screen.note(line)
    if bad := [one for one in checked if not one.is_good]:
        errors = count_text(sum(one.errors for one in bad), "error")
        what = (
            f"the check of {', '.join(one.slug for one in bad)} found {errors}: mend what it says"
        )
        raise Refused("check_failed", f"{what}; nothing was published")
    for one in checked:
        assert one.report is not None
        yield Voucher(report=one.report.model_dump_json())


async def publish(
    api: Api,
    screen: Screen,
    problem: ProblemFiles,
    voucher: Voucher,
    said: Fields = NO_FIELDS,
) -> Answer:
    """What the platform says to one problem; asked again while it does not answer."""
    return await persist(
        lambda: api.publish(problem.slug, problem.files, voucher, said),
        REPEAT_S_MAX,
        lambda trouble: screen.note(f"warpboard: {trouble}"),
    )


def added(published: Published) -> str:
    """What became of a problem, in a line."""
    if published.is_new:
        return f"{published.slug} version {published.number} published"
    return f"{published.slug} unchanged: version {published.number}"
