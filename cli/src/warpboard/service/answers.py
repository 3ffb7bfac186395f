"""What the commands and the MCP tools share in reading the platform's answers."""

import json
import re
from dataclasses import asdict
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from shared.api.problems import FullProblem
from shared.api.queues import Queue
from shared.api.submissions import Balance, Progress
from shared.presentation.outcome import failure_lines
from shared.presentation.report_parts import ProgressText, queue_text, run_progress
from shared.presentation.responses import JsonObject, Run
from shared.presentation.units import NO_VALUE, instant_text, one_line, seconds_text, time_text
from warpboard.api import Api

# Transient notices are not part of the history and have no place in it.
QUEUE, PROGRESS, END = "queue", "progress", "end"
# Fields that locate an event, as opposed to its content.
FRAME = ("id", "type", "at", "version", "seq", "number", "submission", "actor", "note")
LINE_LENGTH_MAX = 300
DIGEST = re.compile(r"[0-9a-f]{32,}\Z")
DIGEST_CHARS = 12
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT")
FRACTION = re.compile(r"\.\d+")
# Local runs use the processor, whichever GPU types a problem is for.
HERE = "CPU"


async def resolve_gpus(
    api: Api, problem: str, gpu: str | None = None, *, are_open: bool = False
) -> list[str]:
    """Return the named GPU type, else all of a problem's; with `are_open` only open ones.

    The others take no submissions any more, but still have entries.
    """
    if gpu:
        return [gpu]
    details = (await api.get(FullProblem, "problems", problem)).value
    return details.gpus if are_open else [*details.gpus, *details.gpus_closed]


def balance_text(balance: Balance, zone: tzinfo | None = None) -> str:
    """Describe what is left of one limit.

    >>> from datetime import UTC, datetime
    >>> counts = {"limit": 5, "used": 2, "remaining": 3}
    >>> reset_at = datetime(2026, 1, 2, tzinfo=UTC)
    >>> daily = Balance(bucket="p.CPU.ranked", **counts, window_s=86400, reset_at=reset_at)
    >>> balance_text(daily, UTC)
    '3 of 5 left of p.CPU.ranked per day, which resets at 2026-01-02 00:00:00'
    """
    remaining = f"{balance.remaining} of {balance.limit} left of {balance.bucket}"
    reset = f"which resets at {instant_text(balance.reset_at, zone)}"
    return f"{remaining} per {window_text(balance.window_s)}, {reset}"


def window_text(window_s: float) -> str:
    """Name the length of a quota's window.

    >>> window_text(86400), window_text(3600), window_text(172800), window_text(90)
    ('day', 'hour', '2 days', '90 s')
    """
    for length, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        count, remainder = divmod(window_s, length)
        if count >= 1 and not remainder:
            return name if count == 1 else f"{count:.0f} {name}s"
    return f"{window_s:g} s"


def event_line(event: JsonObject, zone: tzinfo | None = None) -> str:
    """Describe one event of a history: its place, time, type and content.

    >>> from datetime import UTC
    >>> event_line({"id": 7, "type": "RunStarted", "at": "2026-01-02T03:04:05Z", "agent": "a1"},
    ...     UTC)
    '7  2026-01-02 03:04:05  RunStarted  agent=a1'
    """
    place, kind = str(event.get("id", NO_VALUE)), one_line(str(event.get("type", NO_VALUE)), 60)
    try:
        at = msgspec.convert(event.get("at"), datetime)
    except msgspec.ValidationError:
        at = None
    parts = (place, instant_text(at, zone), kind, _content_text(event))
    return "  ".join(part for part in parts if part)


def _content_text(event: JsonObject) -> str:
    if note := event.get("note"):
        return one_line(str(note), LINE_LENGTH_MAX)
    fields = (f"{name}={_value_text(value)}" for name, value in event.items() if name not in FRAME)
    return one_line(" ".join(fields), LINE_LENGTH_MAX)


def _value_text(value: Any) -> str:
    """Format a value, shortened for reading.

    >>> _value_text(1.23456789), _value_text("2026-01-02T03:04:05.678Z")
    ('1.235', '2026-01-02T03:04:05Z')
    >>> _value_text("ab" * 32), _value_text([1])
    ('abababababab…', '[1]')
    """
    if isinstance(value, float):
        return f"{value:.4g}"
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if DIGEST.match(value):
        return f"{value[:DIGEST_CHARS]}…"
    return FRACTION.sub("", value) if INSTANT.match(value) else value


def notice_progress(kind: str, data: JsonObject) -> ProgressText | None:
    """Return a transient notice as progress; None if it is no such notice.

    >>> notice_progress("progress", {"stage": "check", "case": "n=1", "done": 0,
    ...     "total": 2, "stages": []}).sentence
    'check, case 1 of 2: n=1'
    """
    try:
        if kind == QUEUE:
            return queue_text(msgspec.convert(data, Queue))
        if kind == PROGRESS:
            return run_progress(msgspec.convert(data, Progress))
    except msgspec.ValidationError:
        pass
    return None


def run_heading(subject: str, mode: str, run: Run) -> str:
    """Describe in one line how a local run ended, and under which isolation."""
    took = f" in {seconds_text(run.took_s)}" if run.took_s is not None else ""
    tier = f", tier {run.tier}" if run.tier else ""
    return f"{subject}: {run.verdict or 'no verdict'} ({mode}, isolation {run.level}{tier}){took}"


def local_lines(name: str, mode: str, run: Run, score_us: float | None) -> list[str]:
    """Describe the end of a run without a server."""
    head = run_heading(name, mode, run)
    lines = [head] if run.verdict == "passed" else [head, *failure_lines(run)]
    return [*lines, f"score {time_text(score_us)}"] if score_us is not None else lines


def with_roofline(answer: JsonObject, manifest: bytes, gpu: str = HERE) -> JsonObject:
    """Add to a local run what share of the GPU type's limit each time reaches.

    It stays as it is if the problem declares no work. The server does the same for submissions.
    """
    from shared.problems.roofline import compare_to_roofline, read_works

    works = {work.case: work for work in read_works(json.loads(manifest))}
    cases = []
    for case in answer["cases"] if works else ():
        work, time_us = works.get(case["name"]), case.get("time_us")
        if work and time_us and case["stage"] == "time" and (work.bytes or work.flops):
            roofline = compare_to_roofline(work, gpu, time_us)
            case = case if roofline is None else case | {"roofline": asdict(roofline)}  # noqa: PLW2901
        cases.append(case)
    return answer | {"cases": cases} if works else answer
