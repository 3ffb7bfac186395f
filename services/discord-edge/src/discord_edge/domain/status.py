"""Where a submission is, folded from its stream, as the text of one message."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from discord_edge.domain.wording import CONTENT_MAX, escaped
from shared.telling.answers import Progress, Queue, Stage
from shared.telling.parts import TITLES
from shared.telling.progress import step, waiting
from shared.telling.units import seconds_text

LINES_MAX = 12
DONE, GOES_ON, BROKEN = "✅", "⏳", "❌"
_NOW: Mapping[str, str] = {
    "SubmissionReceived": "queued",
    "JobQueued": "queued",
    "JobRequeued": "queued again",
    "JobExpired": "its agent was lost",
    "RunStarted": "running",
}


@dataclass(frozen=True)
class Status:
    """A submission on its way; `done` are the stages behind it."""

    number: int
    problem: str
    mode: str
    gpu: str
    done: tuple[str, ...] = ()
    now: str = "received"
    place: int = 0
    is_cancelling: bool = False
    is_over: bool = False
    is_good: bool = True

    @property
    def text(self) -> str:
        """The message, in words and with marks beside them."""
        head = f"**#{self.number}** {escaped(self.problem)} · {self.mode} · {escaped(self.gpu)}"
        return "\n".join((head, *self.done[-LINES_MAX:], self._last))[:CONTENT_MAX]

    @property
    def line(self) -> str:
        """The same in a line.

        >>> Status(7, "sort", "test", "CPU", now="queued: place 2").line
        '**#7** CPU: ⏳ queued: place 2'
        """
        return f"**#{self.number}** {escaped(self.gpu, 40)}: {self._last}"

    @property
    def _last(self) -> str:
        if not self.is_over:
            return f"{GOES_ON} {'being cancelled; ' if self.is_cancelling else ''}{self.now}"
        return f"{DONE if self.is_good else BROKEN} {self.now}"


def evolve(status: Status, kind: str, said: Mapping[str, Any]) -> Status:
    """The status after one more event or notice of its stream; unknown ones change nothing."""
    place = max(status.place, int(said.get("id") or 0))
    if kind == "SubmissionCancelRequested":
        return replace(status, place=place, is_cancelling=True)
    if said.get("is_over"):
        return replace(status, place=place, now="over; the report follows")
    stages = _stages(said)
    done = tuple(map(_stage_line, stages)) if stages else status.done
    return replace(status, place=place, done=done, now=_now(status, kind, said))


def _stages(said: Mapping[str, Any]) -> list[Stage]:
    """The stages that ended, which progress and the end of a run name; else none."""
    try:
        return msgspec.convert(said.get("stages", ()), list[Stage])
    except msgspec.ValidationError:
        return []


def _stage_line(stage: Stage) -> str:
    mark = DONE if stage.verdict == "passed" else BROKEN
    title = escaped(TITLES.get(stage.stage, stage.stage), 40)
    return f"{mark} {title} over in {seconds_text(stage.took_s)}"


def _now(status: Status, kind: str, said: Mapping[str, Any]) -> str:
    if kind == "JobAssigned":
        agent = escaped(str(said.get("agent") or ""), 60)
        return f"given to agent {agent}" if agent else "given to an agent"
    if kind == "RunCompleted":
        return f"the verdict is there: {escaped(str(said.get('verdict') or ''), 60)}"
    try:
        if kind == "queue":
            return escaped(waiting(msgspec.convert(said, Queue)).whole)
        if kind == "progress":
            return escaped(step(msgspec.convert(said, Progress)).sentence)
    except msgspec.ValidationError:
        pass
    return _NOW.get(kind, status.now)
