"""How far a submission is, in the client's words: derived from one read, never stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ingest.popcorn.seen import WAITING, Shown, Wait
from ingest.popcorn.shapes import JobPolled, RunnerQueue
from ingest.popcorn.words import instant, plain

STAGES = {
    "build": "build",
    "check": "test",
    "hidden_check": "hidden test",
    "time": "benchmark",
    "profile": "profile",
}
STATUSES: Mapping[str, Literal["no_agent", "paused"]] = {
    "no_agent": "no_agent",
    "paused": "paused",
}
ENDS = ("succeeded", "failed", "timed_out", "hacked")


@dataclass(frozen=True)
class Standing:
    """The client's job status, whether that is the last one, and what to read of it."""

    status: str
    is_done: bool = False
    error: str | None = None
    more: str = ""


def standing(seen: Shown) -> Standing:
    """The status of a submission; whatever is done has its last one, both from one read."""
    if not seen.is_over:
        return Standing("pending" if _is_pending(seen) else "running", more=_more(seen))
    status, error = _end(seen)
    if error is None:
        return Standing(status, True)
    return Standing(status, True, plain(error) or "no reason was given")


def _is_pending(seen: Shown) -> bool:
    """Whether no agent ever had it: given back by one, it goes on running for the client."""
    return seen.state in WAITING and seen.attempt == 0


def _more(seen: Shown) -> str:
    """What the client prints behind the status."""
    if seen.state in WAITING:
        return waiting(seen.wait) if seen.wait else ""
    if seen.state == "ranking":
        return "deciding"
    said = seen.progress or {}
    stage = STAGES.get(str(said.get("stage", "")), "")
    done, total = said.get("done"), said.get("total")
    if not stage or not isinstance(done, int) or not isinstance(total, int):
        return stage
    return f"{stage} {done}/{total}"


def waiting(queue: Wait) -> str:
    """What somebody waits for, in words.

    >>> waiting(Wait(ahead=2, eta_s=40.2)), waiting(Wait(state="no_agent", reason="none is alive"))
    ('2 ahead, start in about 40 s', 'none is alive')
    """
    if queue.state == "no_agent" or queue.reason:
        return plain(queue.reason or "no agent is online", 300)
    ahead = "queued" if queue.ahead is None else f"{queue.ahead} ahead"
    return ahead if queue.eta_s is None else f"{ahead}, start in about {queue.eta_s:.0f} s"


def _end(seen: Shown) -> tuple[str, str | None]:
    """The last status, and why it is no success."""
    if seen.ranked("code") == "disqualified":
        return "hacked", _disqualified(seen)
    if seen.verdict == "timed_out":
        stage = STAGES.get(seen.stage or "", "a stage")
        return "timed_out", f"the budget of {stage} is used up{_because(seen.reason)}"
    if seen.outcome != "passed":
        return "failed", _failure(seen)
    return _ranked(seen) if seen.mode == "ranked" else ("succeeded", None)


def _failure(seen: Shown) -> str:
    if seen.outcome == "cancelled":
        return f"cancelled by {_canceller(seen)}{_because(seen.reason)}"
    if seen.outcome == "infra_failed":
        what = "the platform failed, not your code: your quota is given back, submit again"
        return f"{what} ({seen.code}){_because(seen.reason)}"
    return seen.reason or f"ended {seen.verdict or seen.outcome} ({seen.code})"


def _ranked(seen: Shown) -> tuple[str, str | None]:
    """A ranked run that passed has succeeded only if it stands, or may stand, on the board."""
    reason = seen.ranked("reason") or seen.reason
    if seen.ranked("status") == "held":
        return "failed", f"passed, but held for review{_because(reason)}"
    if seen.is_eligible:
        return "succeeded", None
    code = seen.ranked("code") or seen.code
    return "failed", f"passed, but not ranked ({code}){_because(reason)}"


def _disqualified(seen: Shown) -> str:
    said = seen.moderation or {}
    rule, reason = said.get("rule") or "a rule", said.get("reason")
    how = f"appeal by POST /v1/submissions/{seen.number}/appeal"
    return f"disqualified by the rule {rule!r}{_because(reason)}; {how}"


def _canceller(seen: Shown) -> str:
    asked = [one for one in seen.timeline if one.type == "SubmissionCancelRequested"]
    is_own = bool(asked) and asked[-1].actor == f"account:{seen.account}"
    return "you" if is_own else "an operator"


def _because(reason: object) -> str:
    return f": {reason}" if reason else ""


def job(seen: Shown, *, is_long: bool = False) -> JobPolled:
    """The client's `job`; with `is_long`, its status tells more behind a colon while it goes on."""
    now = standing(seen)
    status = f"{now.status}: {now.more}" if is_long and now.more else now.status
    return {
        "status": status,
        "error": now.error,
        "last_heartbeat": None,
        "state": seen.state,
        "stage": seen.stage,
        "deadline": instant(seen.state_deadline_at or seen.deadline_at),
    }


def runner_queue(wait: Wait | None) -> RunnerQueue | None:
    """A queue in the client's words; None once somebody works on what waited in it."""
    return None if wait is None else queue_told(wait)


def queue_told(wait: Wait) -> RunnerQueue:
    """A queue in the client's words."""
    eta = "" if wait.eta_s is None else f" (start in about {wait.eta_s:.0f} s)"
    return {
        "runner": f"pool{eta}",
        "gpu": wait.gpu,
        "queued_jobs": wait.ahead or 0,
        "running_jobs": wait.agents_busy,
        "available_runners": max(0, wait.agents_online - wait.agents_busy),
        "status": STATUSES.get(wait.state, "available"),
        "error": plain(wait.reason or "") or None,
    }
