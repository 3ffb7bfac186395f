"""How far a submission is, in the client's words: derived from one read, never stored."""

from dataclasses import dataclass
from typing import Any

from ingest.popcorn.seen import WAITING, Pool, Shown, Wait
from ingest.popcorn.words import instant, plain

STAGES = {
    "build": "build",
    "check": "test",
    "hidden_check": "hidden test",
    "time": "benchmark",
    "profile": "profile",
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
    return Standing(status, True, None if error is None else plain(error))


def _is_pending(seen: Shown) -> bool:
    """Whether no agent ever had it: given back by one, it goes on running for the client."""
    return seen.state in WAITING and seen.attempt == 0


def _more(seen: Shown) -> str:
    """What the client prints behind the status."""
    if seen.state in WAITING:
        return waiting(seen.queue) if seen.queue else ""
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
    ahead = f"{queue.ahead or 0} ahead"
    return ahead if queue.eta_s is None else f"{ahead}, start in about {queue.eta_s:.0f} s"


def _end(seen: Shown) -> tuple[str, str | None]:
    """The last status, and why it is no success."""
    if seen.is_disqualified:
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
    said = seen.ranking
    if said is not None and said.status == "held":
        return "failed", f"passed, but held for review{_because(said.reason or seen.reason)}"
    if seen.is_eligible:
        return "succeeded", None
    code = said.code if said is not None else seen.code
    reason = (said.reason if said is not None else None) or seen.reason
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


def job(seen: Shown, *, is_long: bool = False) -> dict[str, Any]:
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


def runner_queue(seen: Shown) -> dict[str, Any] | None:
    """The queue in front of one submission; None once somebody works on it."""
    if seen.is_over or seen.state not in WAITING or seen.queue is None:
        return None
    queue = seen.queue
    free = max(0, queue.agents_online - queue.agents_busy)
    eta = "" if queue.eta_s is None else f" (start in about {queue.eta_s:.0f} s)"
    is_off = queue.state == "no_agent"
    return {
        "runner": f"pool{eta}",
        "gpu": seen.gpu,
        "queued_jobs": queue.ahead or 0,
        "running_jobs": queue.agents_busy,
        "available_runners": free,
        "status": queue.state if queue.state in ("no_agent", "paused") else "available",
        "error": plain(queue.reason or "") or None if is_off or queue.reason else None,
    }


def pool_queue(pool: Pool) -> dict[str, Any]:
    """The queue of a GPU type, as somebody finds it who comes now."""
    free = pool.agents_free or 0
    status = "paused" if pool.paused else "available" if pool.agents_online else "no_agent"
    error = pool.paused or ("" if pool.agents_online else f"no agent with {pool.gpu} is alive")
    return {
        "runner": "pool",
        "gpu": pool.gpu,
        "queued_jobs": pool.depth,
        "running_jobs": max(0, pool.agents_online - free),
        "available_runners": free,
        "status": status,
        "error": plain(error) or None,
    }


def queue_of(seen: Shown, *, at: str) -> dict[str, Any]:
    """Place and estimate, in our own words (spec 8.4)."""
    queue = seen.queue
    said = {
        "gpu": seen.gpu,
        "pool": seen.gpu,
        "state": "running",
        "position": None,
        "ahead": None,
        "wait_s": None,
        "agents_online": None,
        "agents_busy": None,
        "reason": None,
        "as_of": at,
    }
    if queue is None:
        return said
    wait = None if queue.eta_s is None else {"p50": queue.eta_s, "p90": queue.eta_p90_s}
    return said | {
        "state": queue.state,
        "position": queue.position,
        "ahead": queue.ahead,
        "wait_s": wait,
        "agents_online": queue.agents_online,
        "agents_busy": queue.agents_busy,
        "reason": queue.reason,
    }
