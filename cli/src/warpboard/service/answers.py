"""What the commands and the MCP tools share: starter files, waiting, and describing answers."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, TypeVar

import msgspec

from harness.vocabulary import CPU_TYPE
from shared.api.accounts import CurrentAccount
from shared.api.fields import JsonObject
from shared.api.problems import FullProblem, ProblemCase, Start
from shared.api.queues import Queue
from shared.api.quotas import Balance
from shared.api.submissions import FullSubmission, OwnSubmissions, Progress
from shared.api_client import Unavailable
from shared.errors import Failed, Refused
from shared.presentation.failure import describe_failure, failure_lines
from shared.presentation.outcome import Run
from shared.presentation.report_parts import (
    ProgressText,
    queue_text,
    run_progress,
    submission_progress,
)
from shared.presentation.units import (
    NO_VALUE,
    first_line,
    instant_text,
    one_line,
    seconds_text,
    time_text,
)
from shared.problems.submission_file import SUFFIXES, suffix
from shared.speedups import speedup_fields
from warpboard.api import Api, Response
from warpboard.screen import Screen, ShowProgress

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
PAUSE_S_MIN = 0.2
PAUSE_S_MAX = 2.0
# Progress inside a run is no event, so the server holds an answer no longer than this.
HOLD_S = 1.0
PACE_S = 0.1
SILENCE_S_MAX = 60.0
T = TypeVar("T")


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


async def list_own_submissions(api: Api, **query: str | float | None) -> Response[OwnSubmissions]:
    """Return a page of the caller's submissions; none for a name that has no account yet.

    Only a local platform believes such a name. Raises Refused and Failed.
    """
    try:
        return await api.get(OwnSubmissions, "me", "submissions", **query)
    except Refused as refused:
        if refused.code != "missing_credential":
            raise
        if (await api.get(CurrentAccount, "me")).value.participant_id is not None:
            raise
        page = OwnSubmissions(items=[], next_cursor=None, as_of=0)
        return Response(page, msgspec.json.encode(page))


def balance_text(balance: Balance, zone: tzinfo | None = None) -> str:
    """Describe what is left of one limit.

    >>> from datetime import UTC, datetime
    >>> counts = {"limit": 5, "used": 2, "remaining": 3}
    >>> reset_at = datetime(2026, 1, 2, tzinfo=UTC)
    >>> daily = Balance(bucket="p.CPU.ranked", **counts, window_s=86400, reset_at=reset_at)
    >>> balance_text(daily, UTC)
    '3 of 5 left of p.CPU.ranked per day, which resets at 2026-01-02 00:00:00 UTC'
    """
    remaining = f"{balance.remaining} of {balance.limit} left of {balance.bucket}"
    if balance.contest:
        return f"{remaining} in this phase of {balance.contest}"
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
    '7  2026-01-02 03:04:05 UTC  RunStarted  agent=a1'
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
        return first_line(str(note), LINE_LENGTH_MAX)
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
    lines = [run_heading(name, mode, run), *failure_lines(describe_failure(run))]
    return [*lines, f"score {time_text(score_us)}"] if score_us is not None else lines


def with_roofline(answer: JsonObject, manifest: bytes, gpu: str = CPU_TYPE) -> JsonObject:
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


def with_speedups(answer: JsonObject) -> JsonObject:
    """Add to the times of a local run how many times as fast as the yardstick they are."""
    cases = [
        case
        | speedup_fields(case.get("yardstick_us"), case.get("time_us"), case.get("interval_us"))
        for case in answer["cases"]
    ]
    return answer | {"cases": cases}


async def retry_until_available(
    send_request: Callable[[], Awaitable[T]],
    within_s: float,
    report_trouble: Callable[[ProgressText], None],
) -> T:
    """Return the answer of a repeated request; `report_trouble` is called with each failure.

    Raises Unavailable after `within_s`; all other errors at once.
    """
    deadline = time.monotonic() + within_s
    pause_s = PAUSE_S_MIN
    while True:
        try:
            return await send_request()
        except Unavailable as trouble:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise
            report_trouble(
                ProgressText(str(trouble), estimate=f"; trying for {remaining_s:.0f} s more")
            )
            wait_s = max(pause_s, trouble.wait_s or 0.0)
        await asyncio.sleep(min(wait_s, remaining_s))
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


async def wait_until_over(
    apis: Mapping[int, Api], screen: Screen, within_s: float
) -> list[Response[FullSubmission]]:
    """Return each submission once all are over; each is read through the API given for it.

    Raises Failed after `within_s`.
    """
    with screen.live([_key(number) for number in apis]) as show:
        waits = {
            number: asyncio.create_task(_wait_for(api, show, number))
            for number, api in apis.items()
        }
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.gather(*waits.values())
        except TimeoutError as late:
            open_numbers = [
                number for number, task in waits.items() if not task.done() or task.cancelled()
            ]
            names = ", ".join(map(str, open_numbers))
            raise Failed(
                f"not over after {seconds_text(within_s)}: {names}; the platform keeps running it: "
                f"warpboard submission show {open_numbers[0]} --wait waits again"
            ) from late
        finally:
            for wait in waits.values():
                wait.cancel()
            await asyncio.gather(*waits.values(), return_exceptions=True)


def _key(number: int) -> str:
    return f"submission {number}"


async def _wait_for(api: Api, show: ShowProgress, number: int) -> Response[FullSubmission]:
    """Poll until a submission is over; each request asks for a newer version than the last."""
    key, after = _key(number), -1
    while True:
        asked_at = time.monotonic()
        answer = await retry_until_available(
            partial(api.get, FullSubmission, "submissions", number, after=after, wait_s=HOLD_S),
            SILENCE_S_MAX,
            lambda trouble: show(key, trouble),
        )
        submission = answer.value
        show(key, submission_progress(submission))
        if submission.is_over:
            return answer
        after = submission.version
        await asyncio.sleep(max(0.0, PACE_S - (time.monotonic() - asked_at)))


SEED = 4242
STATEMENT = "statement.md"
TASK, EXTRAS = "task.yml", "warpboard.yml"
SINGLE = ("input_output", "outputs", "reference_outputs", "kernelbench")
TIMEOUTS = ("test", "benchmark", "ranked")


def choose_starter(problem: FullProblem, language: str | None) -> Start:
    """Return the starter file for a language; without one, the problem's first.

    Raises Refused for a language that the problem does not take.
    """
    from shared.problems.templates import normalize_language

    if language is None and problem.starts:
        return problem.starts[0]
    name = normalize_language(language or "")
    exact_matches = [starter for starter in problem.starts if starter.language == name]
    same_suffix = [
        starter for starter in problem.starts if suffix(starter.name) == SUFFIXES.get(name)
    ]
    if starter := next(iter(exact_matches or same_suffix), None):
        return starter
    known = ", ".join(starter.language for starter in problem.starts) or "none"
    raise Refused("bad_language", f"no file to begin with in {language!r}: {known}", "--language")


def choose_gpus(
    problem: FullProblem, requested: Sequence[str], offered: Container[str]
) -> list[str]:
    """Return the requested GPU types, else those of the problem's that are offered, else all.

    Raises Refused for a GPU type that the problem does not have.
    """
    known = {gpu.lower(): gpu for gpu in problem.gpus}
    for gpu in requested:
        if gpu.lower() not in known:
            reason = f"{problem.slug} has no GPU type {gpu!r}: {', '.join(problem.gpus)}"
            raise Refused("unknown_gpu", reason, "--gpu")
    if requested:
        return [known[gpu.lower()] for gpu in requested]
    return [gpu for gpu in problem.gpus if gpu in offered] or list(problem.gpus)


def starter_files(
    problem: FullProblem, files: Mapping[str, bytes], gpus: Sequence[str]
) -> dict[str, bytes]:
    """Return the problem's files as a folder that compiles here, with seeds of its own.

    Templates are left out.
    """
    problem_files = {
        name: data for name, data in files.items() if name not in problem.templates.values()
    }
    if problem.form in SINGLE:
        # The file is a complete problem except for its GPU types, and has one case.
        return problem_files | {EXTRAS: _encode_yaml(_extra_fields(problem) | {"gpus": list(gpus)})}
    return problem_files | {
        TASK: _encode_yaml(_task_fields(problem, problem_files)),
        EXTRAS: _encode_yaml(_extra_fields(problem) | _score_fields(problem)),
    }


def _encode_yaml(fields: Mapping[str, object]) -> bytes:
    """Write one key per line, so that users can add some; JSON is YAML too."""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in fields.items()).encode()


def _task_fields(problem: FullProblem, files: Mapping[str, bytes]) -> dict[str, object]:
    others = (STATEMENT, TASK, EXTRAS, problem.rules.consent)
    names = [name for name in sorted(files) if name not in others]
    return {
        "files": [
            {"name": problem.submission, "source": "@SUBMISSION@"},
            *({"name": name, "source": name} for name in names),
        ],
        "lang": problem.lang,
        "config": _config_fields(problem),
        "description": problem.description or problem.title,
        "tests": _seed_cases(problem.rules.cases.tests),
        "benchmarks": _seed_cases(problem.rules.cases.benchmarks),
        "ranking_by": problem.ranking_by or "last",
        "multi_gpu": problem.is_multi_gpu,
        "gpus": list(problem.gpus),
    } | {
        f"{key}_timeout": round(problem.budgets_s[key])
        for key in TIMEOUTS
        if key in problem.budgets_s
    }


def _config_fields(problem: FullProblem) -> dict[str, object]:
    """Return how the code is called; for a problem in C++, how it is compiled."""
    if problem.form != "native":
        return {"main": problem.main or "eval.py"}
    return {
        "sources": [problem.submission, *problem.native.sources],
        "defines": problem.native.defines,
        "compile_flags": problem.native.flags,
    }


def _extra_fields(problem: FullProblem) -> dict[str, object]:
    settings: dict[str, object] = {"title": one_line(problem.title, 100) or problem.slug}
    if problem.form == "task" and problem.languages:
        settings["languages"] = problem.languages
    if problem.main:
        settings["harness"] = "popcorn"
    if problem.native.arrays:
        settings["arrays"] = problem.native.arrays
    if problem.form == "task" or problem.answers:
        # The default would compare with files that participants do not get.
        settings["answers"] = problem.answers or "strict"
    if problem.memory_mib:
        settings["limits"] = {"memory_mib": problem.memory_mib}
    if formulas := msgspec.to_builtins(problem.rules.roofline):
        settings["roofline"] = formulas
    if "build" in problem.budgets_s:
        settings["budget_s"] = {"build": round(problem.budgets_s["build"])}
    return settings


def _score_fields(problem: FullProblem) -> dict[str, object]:
    """Return the weights of the timed cases, unless they are equal, and the hidden families."""
    weights = [case.weight for case in problem.rules.cases.benchmarks]
    fields: dict[str, object] = {"weights": weights} if len(set(weights)) > 1 else {}
    families = {
        family.group: {"count": family.count, "args": family.args}
        | ({"weight": family.weight} if family.group == "benchmarks" else {})
        for family in problem.rules.cases.hidden
    }
    return fields | ({"hidden": families} if families else {})


def _seed_cases(cases: Sequence[ProblemCase]) -> list[dict[str, Any]]:
    """Return the arguments of cases, with seeds of our own for those that take one."""
    return [
        case.args | ({"seed": SEED + index} if case.is_seeded else {})
        for index, case in enumerate(cases)
    ]
