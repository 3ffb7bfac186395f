"""Where a submission or a run is, in a sentence."""

from dataclasses import dataclass

from shared.telling.answers import Progress, Queue, Submission
from shared.telling.units import NOTHING, about_text, count_text, one_line

_STATES = {
    "received": "received",
    "queued": "queued",
    "running": "running",
    "ranking": "the verdict is there; ranking",
    "finished": "finished",
}


@dataclass(frozen=True)
class News:
    """A sentence, how many cases of a stage are over if that is known, and whether all is over.

    An `estimate` belongs to the sentence, and is no news by itself.
    """

    sentence: str
    done: int = 0
    total: int = 0
    is_over: bool = False
    estimate: str = ""

    @property
    def whole(self) -> str:
        """The sentence with its estimate."""
        return self.sentence + self.estimate


def news(submission: Submission) -> News:
    """Where a submission is."""
    if submission.is_over:
        return News(submission.verdict or submission.outcome or "finished", is_over=True)
    if submission.state == "running" and submission.progress is not None:
        return step(submission.progress)
    if submission.state == "assigned":
        return News(f"given to agent {submission.agent}")
    if submission.queue is not None:
        return waiting(submission.queue)
    return News(_STATES.get(submission.state, submission.state))


def step(progress: Progress) -> News:
    """Where a run is.

    >>> step(Progress(stage="check", case="size=64", done=2, total=5)).sentence
    'check, case 3 of 5: size=64'
    """
    at = f"case {min(progress.done + 1, progress.total)} of {progress.total}"
    name = f": {one_line(progress.case, 60)}" if progress.case else ""
    words = f"{progress.stage}, {at}{name}" if progress.total else f"{progress.stage}{name}"
    return News(words, progress.done, progress.total)


def waiting(queue: Queue) -> News:
    """What a submission waits for."""
    if queue.state == "no_agent":
        return News(f"waiting: {one_line(queue.why or queue.reason or 'no agent is alive')}")
    place = "queued" if queue.position is None else f"queued: place {queue.position}"
    if queue.why:
        return News(f"{place}, {one_line(queue.why)}")
    online = f"{count_text(queue.agents_online, 'agent')} online, {queue.agents_busy} busy"
    return News(f"{place}, {online}", estimate=_begins(queue))


def _begins(queue: Queue) -> str:
    """When it may begin, at the usual and at the worst."""
    if queue.eta_s is None:
        return ""
    usual, late = about_text(queue.eta_s), about_text(queue.eta_p90_s)
    worst = f" (9 times of 10 within {late})" if late not in (NOTHING, "at once", usual) else ""
    return f"; begins {'in about ' if usual != 'at once' else ''}{usual}{worst}"
