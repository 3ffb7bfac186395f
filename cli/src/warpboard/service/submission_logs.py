"""Show the events of a submission, so far or as they happen."""

import asyncio
import re
import time
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from shared.api.queues import Queue
from shared.api.submissions import FullSubmission, Progress
from shared.errors import Failed
from shared.presentation.outcome import log_lines, outcome_lines
from shared.presentation.report_parts import (
    ProgressText,
    queue_text,
    run_progress,
    submission_progress,
)
from shared.presentation.responses import JsonObject
from shared.presentation.units import NO_VALUE, instant_text, one_line, seconds_text
from warpboard.domain.exit_codes import OK
from warpboard.service.ports import Api, LiveProgress, Screen, Unavailable
from warpboard.service.submissions import exit_code

SILENCE_S_MAX = 60.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.2, 4.0
# Transient notices are not part of the history and have no place in it.
QUEUE, PROGRESS, END = "queue", "progress", "end"
# Fields that locate an event, as opposed to its content.
FRAME = ("id", "type", "at", "version", "seq", "number", "submission", "actor", "note")
LINE_LENGTH_MAX = 300
DIGEST = re.compile(r"[0-9a-f]{32,}\Z")
DIGEST_CHARS = 12
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT")
FRACTION = re.compile(r"\.\d+")


@dataclass(frozen=True)
class LogOptions:
    """Which submission; with `within_s`, follow it until it is over, at most for that time."""

    number: int
    within_s: float | None
    after: int = 0
    as_json: bool = False


async def show_logs(api: Api, screen: Screen, options: LogOptions) -> int:
    """Show a submission's events and output; when following, return its exit code."""
    if options.within_s is None:
        return await _show_so_far(api, screen, options)
    follower = Follower(api, screen, options)
    try:
        async with asyncio.timeout(options.within_s):
            await follower.follow()
    except TimeoutError as late:
        raise Failed(
            f"submission {options.number} is not over after "
            f"{seconds_text(options.within_s)}; continue with "
            f"warpboard submission logs {options.number} --follow --after {follower.place}"
        ) from late
    submission = (await api.get(FullSubmission, "submissions", options.number)).value
    for line in () if options.as_json else outcome_lines(submission):
        screen.say(line)
    return exit_code(submission)


async def _show_so_far(api: Api, screen: Screen, options: LogOptions) -> int:
    answer = await api.get(FullSubmission, "submissions", options.number)
    submission = answer.value
    events = [
        event for event in await api.history(options.number) if _event_place(event) > options.after
    ]
    if options.as_json:
        printed = {name: getattr(submission, name) for name in ("log_head", "log_tail")}
        screen.json({"number": options.number, "events": events, **printed})
        return OK
    for event in events:
        screen.say(event_line(event))
    for line in log_lines(submission):
        screen.say(line)
    if not submission.is_over:
        screen.note(f"it goes on: warpboard submission logs {options.number} --follow")
    return OK


def _event_place(event: JsonObject) -> int:
    return int(event.get("id", 0))


class Follower:
    """Prints each event once, in order, and reconnects when a connection is cut."""

    def __init__(self, api: Api, screen: Screen, options: LogOptions) -> None:
        self._api = api
        self._screen = screen
        self._options = options
        self.place = options.after
        self._heard_at = time.monotonic()

    async def follow(self) -> None:
        """Follow until the platform reports the end. Raises Refused, Unavailable and Failed."""
        pause_s, key = PAUSE_S_MIN, f"submission {self._options.number}"
        with self._screen.live([key]) as live:
            while True:
                began_at = self.place
                try:
                    if await self._read_connection(live, key):
                        return
                    reason = "the connection was closed"
                except Unavailable as trouble:
                    if time.monotonic() - self._heard_at > SILENCE_S_MAX:
                        raise
                    reason = str(trouble)
                pause_s = PAUSE_S_MIN if self.place > began_at else min(2 * pause_s, PAUSE_S_MAX)
                live.show(key, ProgressText(f"{reason}; asking on from {self.place}"))
                await asyncio.sleep(pause_s)

    async def _read_connection(self, live: LiveProgress, key: str) -> bool:
        """Print the events of one connection; return whether it reached the end."""
        async for message in self._api.events(self._options.number, self.place):
            self._heard_at = time.monotonic()
            if message.kind == END:
                return True
            if progress := notice_progress(message.kind, message.data):
                live.show(key, progress)
            elif message.place is not None and message.place > self.place:
                self.place = message.place
                self._print(message.data)
        return False

    def _print(self, event: JsonObject) -> None:
        if self._options.as_json:
            self._screen.json_line(event)
        else:
            self._screen.say(event_line(event))


async def show_state(api: Api, screen: Screen, number: int, *, as_json: bool) -> int:
    """Show in one line where a submission is or how it ended; return its exit code."""
    answer = await api.get(FullSubmission, "submissions", number)
    submission = answer.value
    if as_json:
        names = ("number", "problem", "gpu", "mode", "state", "is_over", "outcome", "verdict")
        more_names = ("score_us", "queue", "progress", "ranking", "version")
        document = answer.document
        screen.json({name: document.get(name) for name in (*names, *more_names)})
    elif submission.is_over:
        for line in outcome_lines(submission):
            screen.say(line)
    else:
        screen.say(f"submission {number}: {submission_progress(submission).whole}")
    return exit_code(submission)


def event_line(event: JsonObject, zone: tzinfo | None = None) -> str:
    """Describe one event of a history: its place, time, type and content.

    >>> from datetime import UTC
    >>> event_line({"id": 7, "type": "RunStarted", "at": "2026-01-02T03:04:05Z", "agent": "a1"},
    ...     UTC)
    '7  2026-01-02 03:04:05  RunStarted  agent=a1'
    """
    place, kind = str(event.get("id", NO_VALUE)), one_line(str(event.get("type", NO_VALUE)), 60)
    parts = (place, instant_text(_instant(event.get("at")), zone), kind, _content_text(event))
    return "  ".join(part for part in parts if part)


def _instant(value: Any) -> datetime | None:
    try:
        return msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return None


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
