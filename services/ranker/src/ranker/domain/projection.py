"""What each rarer event means to the read models: named statements and their values."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ranker.domain.confirmation import confirmation_text
from ranker.domain.named import DIGEST
from ranker.domain.roofs import BELOW_FLOOR
from shared import events
from shared.event_log import Recorded
from shared.events import HARNESS_CODE
from shared.subjects import last_token

Values = dict[str, Any]
LIFTED = "released by an operator: {reason}"
REASONED = {
    "AgentCordoned": "agent_cordoned",
    "AgentDrained": "agent_drained",
    "AgentQuarantined": "agent_quarantined",
    "AgentReleased": "agent_released",
    "PoolPaused": "pool_paused",
    "PoolResumed": "pool_resumed",
    "AccountUnbanned": "account_unbanned",
    "SubmissionReleased": "submission_released",
    "SubmissionRestored": "submission_restored",
    "SubmissionWithdrawn": "submission_withdrawn",
    "LeaderboardArchived": "leaderboard_archived",
}


class Step(NamedTuple):
    """One named statement of sql/project.sql and its values."""

    statement: str
    values: Values


def _problem_published(event: Recorded, fact: events.ProblemPublished) -> list[Step]:
    accepted, report = fact.files.get(fact.consent), fact.report
    values = {
        "slug": last_token(event.envelope.agg),
        "number": fact.number,
        "digest": fact.digest,
        "title": fact.title,
        "manifest": fact.manifest.digest,
        "gpus": fact.gpus,
        "cases_count": _json(fact.cases_count),
        "ranking_by": fact.ranking_by,
        "budgets_s": _json(fact.budgets_s),
        "source_bytes_max": fact.source_bytes_max,
        "languages": fact.languages,
        "roofs": _json(fact.roofs),
        "baselines": _json(fact.baselines),
        "milestones": _json(fact.milestones),
        "source_visible": fact.source_visible,
        "publish": fact.publish,
        "consent": "" if accepted is None else accepted.digest,
        "report": "" if report is None else report.digest,
        "unchecked": fact.unchecked,
        "at": event.envelope.at,
    }
    return [Step("problem_published", values)]


def _leaderboard_changed(event: Recorded, fact: events.LeaderboardChanged) -> list[Step]:
    values = _of(event) | {
        "visibility": fact.visibility,
        "is_deadline_said": fact.has_deadline is not None,
        "deadline_at": fact.deadline_at if fact.has_deadline else None,
        "gpus": fact.gpus,
    }
    return [Step("leaderboard_changed", values)]


def _consented(event: Recorded, fact: events.ConsentGiven | events.ConsentWithdrawn) -> list[Step]:
    values = _of(event) | {"problem": fact.problem, "digest": fact.digest}
    is_given = isinstance(fact, events.ConsentGiven)
    return [Step("consent_given" if is_given else "consent_withdrawn", values)]


def _agent_registered(event: Recorded, fact: events.AgentRegistered) -> list[Step]:
    values = _of(event) | {
        "gpu": fact.gpu,
        "count": fact.count,
        "fingerprint": fact.fingerprint,
        "level": fact.level,
        "harness": fact.harness,
        "details": _json(fact.details),
        "tier": fact.tier,
        "missing": _json(fact.missing),
        "toolchains": _json(fact.toolchains),
        "modes": fact.modes,
        "quarantine": fact.quarantine,
    }
    digest = fact.details.get(HARNESS_CODE, "")
    changed = Step("agent_harness_changed", _of(event) | {"digest": digest})
    steps = [Step("agent_registered", values), changed]
    if DIGEST.match(digest):
        said = _of(event) | {"digest": digest, "version": fact.harness}
        steps.append(Step("harness_seen", said))
    return steps


def _agent_enrolled(event: Recorded, fact: events.AgentEnrolled) -> list[Step]:
    values = _of(event) | {"sign_key": fact.sign_key, "owner": fact.owner}
    return [Step("agent_key_changed", values), Step("agent_enrolled", values)]


def _agent_revoked(event: Recorded, fact: events.AgentRevoked) -> list[Step]:
    values = _of(event) | {"sign_key": None, "reason": fact.reason}
    return [Step("agent_key_changed", values), Step("agent_revoked", values)]


def _reasoned(event: Recorded, fact: Any) -> list[Step]:
    """The meaning of an event that says no more than a reason."""
    return [Step(REASONED[event.envelope.type], _of(event) | {"reason": fact.reason})]


def _account_banned(event: Recorded, fact: events.AccountBanned) -> list[Step]:
    values = _of(event) | {"reason": fact.reason, "until_at": fact.until_at}
    return [Step("account_banned", values)]


def _kept_off(
    event: Recorded, fact: events.SubmissionHeld | events.SubmissionDisqualified
) -> list[Step]:
    evidence = fact.evidence.digest if fact.evidence is not None else None
    values = _of(event) | {"rule": fact.rule, "reason": fact.reason, "evidence": evidence}
    is_held = isinstance(fact, events.SubmissionHeld)
    return [Step("submission_held" if is_held else "submission_disqualified", values)]


def _released(event: Recorded, fact: events.SubmissionReleased) -> list[Step]:
    return [*_reasoned(event, fact), *_lifted(event, fact.reason)]


def _lifted(event: Recorded, reason: str) -> list[Step]:
    """What was held for a time under its floor counts, if it is that."""
    said = {"code": BELOW_FLOOR, "reason": LIFTED.format(reason=reason)}
    return [Step("floor_lifted", _of(event) | said)]


def _appeal_filed(event: Recorded, fact: events.AppealFiled) -> list[Step]:
    return [Step("appeal_filed", _of(event) | {"text": fact.text.digest})]


def _appeal_decided(event: Recorded, fact: events.AppealDecided) -> list[Step]:
    values = _of(event) | {"is_accepted": fact.is_accepted, "reason": fact.reason}
    lifted = _lifted(event, fact.reason) if fact.is_accepted else []
    return [Step("appeal_decided", values), *lifted]


def _duel_requested(event: Recorded, fact: events.DuelRequested) -> list[Step]:
    values = _of(event) | {
        "problem": fact.problem,
        "gpu": fact.gpu,
        "problem_number": fact.problem_number,
        "first_number": fact.first.number,
        "second_number": fact.second.number,
        "first_source": fact.first.source.digest,
        "second_source": fact.second.source.digest,
    }
    return [Step("duel_requested", values)]


def _duel_judged(event: Recorded, fact: events.DuelJudged) -> list[Step]:
    result, values = fact.result, _of(event)
    low, high = (result and result.interval) or (None, None)
    is_decided = result is not None and result.ratio is not None and low is not None
    judged = values | {
        "run": fact.run,
        "winner": result.winner if result else None,
        "ratio": result.ratio if result else None,
        "low": low,
        "high": high,
        "code": fact.code,
        "reason": fact.reason,
    }
    decided = [Step("duel_unwon", values), Step("duel_won", values)] if is_decided else []
    return [Step("duel_judged", judged), *decided]


def _confirmation_requested(event: Recorded, fact: events.ConfirmationRequested) -> list[Step]:
    values = _of(event) | {
        "problem": fact.problem,
        "gpu": fact.gpu,
        "problem_number": fact.problem_number,
        "submission": fact.item.submission,
        "run": fact.run,
        "score_us": fact.score_us,
    }
    return [Step("confirmation_requested", values)]


def _confirmation_judged(event: Recorded, fact: events.ConfirmationJudged) -> list[Step]:
    values = {"code": fact.code, "reason": fact.reason, "shown": confirmation_text(fact)}
    return [Step("confirmation_judged", _of(event) | values)]


def _rejudge_requested(event: Recorded, fact: events.RejudgeRequested) -> list[Step]:
    values = _of(event) | {
        "problem": fact.problem,
        "from_number": fact.from_number,
        "to_number": fact.to_number,
        "select": fact.select,
        "reason": fact.reason,
        "count": len(fact.items),
    }
    return [Step("rejudge_requested", values)]


def _rejudge_judged(event: Recorded, _fact: events.RejudgeJudged) -> list[Step]:
    return [Step("rejudge_moved", _of(event) | {"state": "running", "reason": None})]


def _rejudge_previewed(event: Recorded, fact: events.RejudgePreviewed) -> list[Step]:
    values = _of(event) | {"diff": fact.diff.digest, "changed_count": fact.changed_count}
    return [Step("rejudge_previewed", values)]


def _rejudge_ended(
    event: Recorded, fact: events.RejudgeApplied | events.RejudgeDiscarded
) -> list[Step]:
    state = "applied" if isinstance(fact, events.RejudgeApplied) else "discarded"
    return [Step("rejudge_moved", _of(event) | {"state": state, "reason": fact.reason})]


def _record_set(event: Recorded, fact: events.RecordSet) -> list[Step]:
    values = _board(event) | {
        "problem_number": fact.problem_number,
        "submission": fact.submission,
        "run": fact.run,
        "account": fact.account,
        "score_us": fact.score_us,
        "previous_us": fact.previous_us,
    }
    return [Step("ranking_moved", values), Step("record_set", values)]


def _podium_changed(event: Recorded, fact: events.PodiumChanged) -> list[Step]:
    values = _board(event) | {"problem_number": fact.problem_number, "accounts": fact.after}
    return [Step("ranking_moved", values), Step("podium_changed", values)]


def _milestone_reached(event: Recorded, fact: events.MilestoneReached) -> list[Step]:
    values = _board(event) | {
        "problem_number": fact.problem_number,
        "milestone": fact.milestone,
        "title": fact.title,
        "account": fact.account,
        "submission": fact.submission,
        "value": fact.value,
    }
    return [Step("ranking_moved", values), Step("milestone_reached", values)]


def _of(event: Recorded) -> Values:
    """What every meaning needs: the id of the aggregate, the sequence, the time, who."""
    envelope = event.envelope
    return {
        "id": last_token(envelope.agg),
        "seq": event.seq,
        "at": envelope.at,
        "actor": envelope.actor,
    }


def _board(event: Recorded) -> Values:
    _, slug, gpu = event.envelope.agg.split(".")
    return {"problem": slug, "gpu": gpu, "seq": event.seq, "at": event.envelope.at}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


MEANING: dict[str, Callable[[Recorded, Any], list[Step]]] = {
    "ProblemPublished": _problem_published,
    "LeaderboardChanged": _leaderboard_changed,
    "LeaderboardArchived": _reasoned,
    "ConsentGiven": _consented,
    "ConsentWithdrawn": _consented,
    "AgentRegistered": _agent_registered,
    "AgentEnrolled": _agent_enrolled,
    "AgentRevoked": _agent_revoked,
    "AgentCordoned": _reasoned,
    "AgentDrained": _reasoned,
    "AgentQuarantined": _reasoned,
    "AgentReleased": _reasoned,
    "PoolPaused": _reasoned,
    "PoolResumed": _reasoned,
    "AccountBanned": _account_banned,
    "AccountUnbanned": _reasoned,
    "SubmissionHeld": _kept_off,
    "SubmissionDisqualified": _kept_off,
    "SubmissionReleased": _released,
    "SubmissionRestored": _reasoned,
    "SubmissionWithdrawn": _reasoned,
    "AppealFiled": _appeal_filed,
    "AppealDecided": _appeal_decided,
    "DuelRequested": _duel_requested,
    "DuelJudged": _duel_judged,
    "ConfirmationRequested": _confirmation_requested,
    "ConfirmationJudged": _confirmation_judged,
    "RejudgeRequested": _rejudge_requested,
    "RejudgeJudged": _rejudge_judged,
    "RejudgePreviewed": _rejudge_previewed,
    "RejudgeApplied": _rejudge_ended,
    "RejudgeDiscarded": _rejudge_ended,
    "RecordSet": _record_set,
    "PodiumChanged": _podium_changed,
    "MilestoneReached": _milestone_reached,
}
