"""Asking what is: a submission, lists, leaderboards."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Failed, Refused
from shared.telling.parts import stage_lines, system_lines
from shared.telling.ranks import TIED
from warpboard.domain import statements, tables
from warpboard.domain.answers import Answer, Leaderboard, Submission, Summaries, read
from warpboard.domain.outcome import OK, ending, exit_code, log_lines, noted
from warpboard.domain.problems import Problem, Problems
from warpboard.domain.progress import news
from warpboard.domain.units import NOTHING, count_text, when
from warpboard.service.ports import Api, Disk, Screen
from warpboard.service.waiting import until_over


@dataclass(frozen=True)
class Asked:
    """Which submission; with `wait_s`, once it is over; with `save`, its files into a folder."""

    number: int
    wait_s: float | None
    save: Path | None
    as_json: bool


async def submission(api: Api, disk: Disk, screen: Screen, asked: Asked) -> int:
    """One submission whole; the exit code."""
    if asked.wait_s is None:
        answer = await api.get("submissions", asked.number)
    else:
        (answer,) = await until_over(api, screen, [asked.number], asked.wait_s)
    found = read(answer, Submission)
    if asked.as_json:
        screen.json(answer)
    else:
        _tell(screen, found)
    if asked.save is not None:
        for file in found.files:
            pieces = api.download(asked.number, file.name)
            screen.note(f"saved {await disk.save(asked.save, file.name, pieces)}")
    return exit_code(found)


def _tell(screen: Screen, found: Submission) -> None:
    screen.say(
        f"{found.name or 'a file'} by {found.participant or NOTHING}, "
        f"{found.mode} for {found.problem} "
        f"version {found.problem_number} on {found.gpu}, received {when(found.received_at)}"
    )
    for said in (*noted(found), *system_lines(found), *stage_lines(found)):
        screen.say(said)
    if found.cases:
        screen.table(tables.cases(found.cases))
    if found.files:
        screen.table(tables.files(found.files))
    screen.table(tables.timeline(found.timeline))
    if not found.is_over:
        screen.say(f"submission {found.number}: {news(found).whole}")
        screen.say(
            f"state {found.state} since {when(found.state_since)}, until "
            f"{when(found.state_deadline_at)} at the latest: {found.state_owner} owes the next step"
        )
        return
    for line in ending(found):
        screen.say(line)
    if found.outcome == "passed":
        for line in log_lines(found):
            screen.say(line)


@dataclass(frozen=True)
class Listed:
    """Which submissions: one's own, or everybody's; at most so many."""

    problem: str | None
    is_all: bool
    limit: int
    as_json: bool
    tag: str | None = None


async def submissions(api: Api, screen: Screen, asked: Listed) -> int:
    """The newest submissions, newest first. Errors: Refused for others' tags."""
    if asked.is_all and asked.tag:
        raise Refused("usage", "a tag is among your own: leave out --all, or --tag", "tag")
    path = ("submissions",) if asked.is_all else ("me", "submissions")
    wanted = {"problem": asked.problem, "tag": asked.tag}
    which = {name: text for name, text in wanted.items() if text}
    answer = await api.get(*path, **which, limit=asked.limit)
    found = read(answer, Summaries).items
    return show(screen, answer, tables.submissions(found), as_json=asked.as_json)


async def problem(api: Api, screen: Screen, slug: str, *, as_json: bool) -> int:
    """One problem whole: its text, its cases, its rules."""
    answer = await api.get("problems", slug)
    if as_json:
        screen.json(answer)
        return OK
    found = read(answer, Problem)
    for line in statements.head(found):
        screen.say(line)
    screen.say("")
    for line in statements.text(found):
        screen.say(line)
    return OK


async def problems(api: Api, screen: Screen, *, as_json: bool) -> int:
    """Every problem."""
    answer = await api.get("problems")
    return show(screen, answer, tables.problems(read(answer, Problems).items), as_json=as_json)


def show(screen: Screen, answer: Answer, *shown: tables.Table, as_json: bool) -> int:
    """An answer, as it is for a program, as tables for people."""
    if as_json:
        screen.json(answer)
    for table in () if as_json else shown:
        screen.table(table)
    return OK


@dataclass(frozen=True)
class Which:
    """Whose or which leaderboards: all of a problem's GPU types if none is named."""

    problem: str
    gpu: str | None = None
    as_of: str | None = None
    version: int | None = None


async def gpus(api: Api, which: Which, *, are_open: bool = False) -> list[str]:
    """The GPU types that are meant; those that take submissions in alone, if they are to be open.

    The others have their rows still.
    """
    if which.gpu:
        return [which.gpu]
    found = read(await api.get("problems", which.problem), Problem)
    return found.gpus if are_open else [*found.gpus, *found.gpus_closed]


async def leaderboards(api: Api, screen: Screen, which: Which, *, as_json: bool) -> int:
    """A problem's leaderboards, now or at a moment. Errors: Refused; Failed."""
    said = {"as_of": which.as_of, "version": which.version}
    wanted = {name: value for name, value in said.items() if value is not None}
    answers = [
        await api.get("leaderboards", which.problem, one, **wanted)
        for one in await gpus(api, which)
    ]
    boards = [read(answer, Leaderboard) for answer in answers]
    if which.as_of and any(board.as_of_at is None for board in boards):
        raise Failed("the platform shows no leaderboard of the past: warpboard audit --as-of does")
    if as_json:
        screen.json({"leaderboards": answers})
        return OK
    _show_boards(screen, boards, is_one=which.gpu is not None)
    return OK


def _show_boards(screen: Screen, boards: Sequence[Leaderboard], *, is_one: bool) -> None:
    """Tables of the leaderboards with anything on them, and where the entries of others are."""
    shown = [board for board in boards if is_one or board.items or _is_measured(board)]
    for board in shown:
        screen.table(tables.leaderboard(board))
        if board.milestones:
            screen.table(tables.milestones(board))
    empty = [board.gpu for board in boards if board not in shown]
    if empty and not is_one:
        screen.say(f"no entry yet on {', '.join(empty)}")
    for board in boards:
        if not board.items and board.other_versions:
            screen.say(_other_version(board))
    if any(entry.is_tied for board in shown for entry in board.items):
        screen.say(f"=: {TIED}")


def _other_version(board: Leaderboard) -> str:
    """Say which other version of an empty leaderboard has entries, and how to see them."""
    newest = board.other_versions[0]
    entries = count_text(newest.entries_count, "entry", "entries")
    where = f"{board.problem} {board.gpu} --version {newest.problem_version}"
    return (
        f"nothing is ranked under version {board.problem_version} on {board.gpu}; version"
        f" {newest.problem_version} has {entries}: warpboard leaderboard {where}"
    )


def _is_measured(board: Leaderboard) -> bool:
    return any(one.score_us is not None for one in board.baselines)
