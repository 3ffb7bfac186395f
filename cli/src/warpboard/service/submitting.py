"""Submitting one file, and seeing it through."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shared.clock import new_id
from shared.errors import Refused
from shared.problems.directives import late_directives, read_directives
from warpboard.domain.answers import Answer, Receipt, Receipts, Submission, read
from warpboard.domain.ledgers import left
from warpboard.domain.outcome import OK, ending, exit_code, worst
from warpboard.service.patience import persist
from warpboard.service.ports import Api, Disk, Screen, Wish
from warpboard.service.waiting import until_over

REPEAT_S_MAX = 30.0


@dataclass(frozen=True)
class Asked:
    """What a participant asked on the command line."""

    file: Path
    leaderboard: str | None
    gpus: tuple[str, ...]
    mode: str
    is_waiting: bool
    as_json: bool
    timeout_s: float
    output: Path | None = None
    note: str = ""
    tag: str = ""
    case: int = 0


async def submit(api: Api, disk: Disk, screen: Screen, asked: Asked) -> int:
    """Submit, wait if asked to, and return the exit code. Errors: Refused; Failed."""
    found = wish(disk, asked)
    for number in late_directives(text(found.source)):
        what = "a directive below the leading comments does nothing"
        screen.note(f"warpboard: {asked.file}, line {number}: {what}")
    answer = await persist(
        _once(api, found), REPEAT_S_MAX, lambda trouble: screen.note(f"warpboard: {trouble}")
    )
    receipts = read(answer, Receipts)
    if not asked.is_waiting:
        _hand_out(disk, screen, asked, answer)
        for receipt in receipts.submissions if not asked.as_json else ():
            screen.say(_received(found.problem, receipt))
            screen.note(f"see how it goes: warpboard show {receipt.number} --wait")
        return OK
    for receipt in receipts.submissions:
        screen.note(_received(found.problem, receipt))
    numbers = [receipt.number for receipt in receipts.submissions]
    answers = await until_over(api, screen, numbers, asked.timeout_s)
    _hand_out(disk, screen, asked, {"submissions": answers})
    over = [read(one, Submission) for one in answers]
    for submission in over if not asked.as_json else ():
        for line in ending(submission):
            screen.say(line)
    return worst(exit_code(one) for one in over)


def _hand_out(disk: Disk, screen: Screen, asked: Asked, answer: Answer) -> None:
    """The whole answer for a program, where one asked for it."""
    if asked.as_json:
        screen.json(answer)
    if asked.output is not None:
        disk.write(asked.output, msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n")
        screen.note(f"the whole answer is in {asked.output}")


def wish(disk: Disk, asked: Asked) -> Wish:
    """The request that a file and the options make. Errors: Refused without a leaderboard."""
    source = disk.source(asked.file)
    leaderboard = asked.leaderboard or read_directives(text(source)).leaderboard
    if leaderboard is None:
        raise Refused(
            "unknown_leaderboard",
            "say for which leaderboard: --leaderboard NAME, or #!POPCORN leaderboard NAME "
            "as the file's first line",
        )
    return Wish(
        name=asked.file.name,
        source=source,
        problem=leaderboard,
        mode=asked.mode,
        gpus=asked.gpus,
        note=asked.note,
        tag=asked.tag,
        case=asked.case,
    )


def text(source: bytes) -> str:
    """A source as text. Errors: Refused `not_utf8`."""
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(
            "not_utf8", f"the file is not UTF-8 text: byte {error.start} cannot be read", "file"
        ) from error


def _once(api: Api, found: Wish) -> Callable[[], Awaitable[Answer]]:
    key = new_id()
    return lambda: api.submit(found, key)


def _received(problem: str, receipt: Receipt) -> str:
    quota = f"; {left(receipt.quota)}" if receipt.quota else ""
    return f"submission {receipt.number} received: {problem} on {receipt.gpu}{quota}"
