"""What the rarer event types mean to the read models: named statements and their values."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from ranker.domain.confirmation import confirmation_text
from ranker.domain.goals import BELOW_FLOOR
from shared import events
from shared.event_log import RecordedEvent
from shared.events import HARNESS_CODE, Fact
from shared.subjects import last_token

Values = dict[str, Any]
DIGEST = re.compile(r"[0-9a-f]{64}\Z")
RELEASE_REASON = "released by an operator: {reason}"
# Events that carry only a reason.
ReasonedFact = (
    events.AgentCordoned
    | events.AgentDrained
    | events.AgentQuarantined
    | events.AgentReleased
    | events.PoolPaused
    | events.PoolResumed
    | events.AccountUnbanned
    | events.SubmissionReleased
    | events.SubmissionRestored
    | events.SubmissionWithdrawn
    | events.LeaderboardArchived
)
STATEMENTS_WITH_REASON: dict[type[Fact], str] = {
    events.AgentCordoned: "agent_cordoned",
    events.AgentDrained: "agent_drained",
    events.AgentQuarantined: "agent_quarantined",
    events.AgentReleased: "agent_released",
    events.PoolPaused: "pool_paused",
    events.PoolResumed: "pool_resumed",
    events.AccountUnbanned: "account_unbanned",
    events.SubmissionReleased: "submission_released",
    events.SubmissionRestored: "submission_restored",
    events.SubmissionWithdrawn: "submission_withdrawn",
    events.LeaderboardArchived: "leaderboard_archived",
}


class Step(NamedTuple):
    """One named statement of sql/project.sql and its values."""

    statement: str
    values: Values


F = TypeVar("F", bound=Fact)


@dataclass(frozen=True)
class StepRule(Generic[F]):
    """Which statements an event class runs, beside the rows that it changes."""

    kind: type[F]
    make_steps: Callable[[RecordedEvent, F], list[Step]]


def _problem_published(event: RecordedEvent, fact: events.ProblemPublished) -> list[Step]:
    accepted, report = fact.files.get(fact.consent), fact.report
    values = {
        "slug": last_token(event.envelope.agg),
        "number": fact.number,
        "digest": fact.digest,
        "title": fact.title,
        "manifest": fact.manifest.digest,
        "gpus": fact.gpus,
        "cases_count": _to_json(fact.cases_count),
        "ranking_by": fact.ranking_by,
        "budgets_s": _to_json(fact.budgets_s),
        "source_bytes_max": fact.source_bytes_max,
        "languages": fact.languages,
        "roofs": _to_json(fact.roofs),
        "baselines": _to_json(fact.baselines),
        "milestones": _to_json(fact.milestones),
        "source_visible": fact.source_visible,
        "publish": fact.publish,
        "consent": "" if accepted is None else accepted.digest,
        "report": "" if report is None else report.digest,
        "unchecked": fact.unchecked,
        "at": event.envelope.at,
    }
    return [Step("problem_published", values)]


def _leaderboard_changed(event: RecordedEvent, fact: events.LeaderboardChanged) -> list[Step]:
    values = _common_values(event) | {
        "visibility": fact.visibility,
        "is_deadline_said": fact.has_deadline is not None,
        "deadline_at": fact.deadline_at if fact.has_deadline else None,
        "gpus": fact.gpus,
    }
    return [Step("leaderboard_changed", values)]


def _consented(
    event: RecordedEvent, fact: events.ConsentGiven | events.ConsentWithdrawn
) -> list[Step]:
    values = _common_values(event) | {"problem": fact.problem, "digest": fact.digest}
    is_given = isinstance(fact, events.ConsentGiven)
    return [Step("consent_given" if is_given else "consent_withdrawn", values)]


def _agent_registered(event: RecordedEvent, fact: events.AgentRegistered) -> list[Step]:
    values = _common_values(event) | {
        "gpu": fact.gpu,
        "count": fact.count,
        "fingerprint": fact.fingerprint,
        "level": fact.level,
        "harness": fact.harness,
        "details": _to_json(fact.details),
        "tier": fact.tier,
        "missing": _to_json(fact.missing),
        "toolchains": _to_json(fact.toolchains),
        "modes": fact.modes,
        "quarantine": fact.quarantine,
    }
    digest = fact.details.get(HARNESS_CODE, "")
    changed = Step("agent_harness_changed", _common_values(event) | {"digest": digest})
    steps = [Step("agent_registered", values), changed]
    if DIGEST.match(digest):
        values_seen = _common_values(event) | {"digest": digest, "version": fact.harness}
        steps.append(Step("harness_seen", values_seen))
    return steps


def _agent_enrolled(event: RecordedEvent, fact: events.AgentEnrolled) -> list[Step]:
    values = _common_values(event) | {"sign_key": fact.sign_key, "owner": fact.owner}
    return [Step("agent_key_changed", values), Step("agent_enrolled", values)]


def _agent_revoked(event: RecordedEvent, fact: events.AgentRevoked) -> list[Step]:
    values = _common_values(event) | {"sign_key": None, "reason": fact.reason}
    return [Step("agent_key_changed", values), Step("agent_revoked", values)]


def _reasoned(event: RecordedEvent, fact: ReasonedFact) -> list[Step]:
    values = _common_values(event) | {"reason": fact.reason}
    return [Step(STATEMENTS_WITH_REASON[type(fact)], values)]


def _account_banned(event: RecordedEvent, fact: events.AccountBanned) -> list[Step]:
    values = _common_values(event) | {"reason": fact.reason, "until_at": fact.until_at}
    return [Step("account_banned", values)]


def _kept_off(
    event: RecordedEvent, fact: events.SubmissionHeld | events.SubmissionDisqualified
) -> list[Step]:
    evidence = fact.evidence.digest if fact.evidence is not None else None
    values = _common_values(event) | {
        "rule": fact.rule,
        "reason": fact.reason,
        "evidence": evidence,
    }
    is_held = isinstance(fact, events.SubmissionHeld)
    return [Step("submission_held" if is_held else "submission_disqualified", values)]


def _released(event: RecordedEvent, fact: events.SubmissionReleased) -> list[Step]:
    return [*_reasoned(event, fact), *_lifted(event, fact.reason)]


def _lifted(event: RecordedEvent, reason: str) -> list[Step]:
    """Let a run that was held for a time under its floor count again."""
    values = {"code": BELOW_FLOOR, "reason": RELEASE_REASON.format(reason=reason)}
    return [Step("floor_lifted", _common_values(event) | values)]


def _appeal_filed(event: RecordedEvent, fact: events.AppealFiled) -> list[Step]:
    return [Step("appeal_filed", _common_values(event) | {"text": fact.text.digest})]


def _appeal_decided(event: RecordedEvent, fact: events.AppealDecided) -> list[Step]:
    values = _common_values(event) | {"is_accepted": fact.is_accepted, "reason": fact.reason}
    lifted = _lifted(event, fact.reason) if fact.is_accepted else []
    return [Step("appeal_decided", values), *lifted]


def _duel_requested(event: RecordedEvent, fact: events.DuelRequested) -> list[Step]:
    values = _common_values(event) | {
        "problem": fact.problem,
        "gpu": fact.gpu,
        "problem_number": fact.problem_number,
        "first_number": fact.first.number,
        "second_number": fact.second.number,
        "first_source": fact.first.source.digest,
        "second_source": fact.second.source.digest,
    }
    return [Step("duel_requested", values)]


def _duel_judged(event: RecordedEvent, fact: events.DuelJudged) -> list[Step]:
    result, values = fact.result, _common_values(event)
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


def _confirmation_requested(event: RecordedEvent, fact: events.ConfirmationRequested) -> list[Step]:
    values = _common_values(event) | {
        "problem": fact.problem,
        "gpu": fact.gpu,
        "problem_number": fact.problem_number,
        "submission": fact.item.submission,
        "run": fact.run,
        "score_us": fact.score_us,
    }
    return [Step("confirmation_requested", values)]


def _confirmation_judged(event: RecordedEvent, fact: events.ConfirmationJudged) -> list[Step]:
    values = {"code": fact.code, "reason": fact.reason, "shown": confirmation_text(fact)}
    return [Step("confirmation_judged", _common_values(event) | values)]


def _rejudge_requested(event: RecordedEvent, fact: events.RejudgeRequested) -> list[Step]:
    values = _common_values(event) | {
        "problem": fact.problem,
        "from_number": fact.from_number,
        "to_number": fact.to_number,
        "select": fact.select,
        "reason": fact.reason,
        "count": len(fact.items),
    }
    return [Step("rejudge_requested", values)]


def _rejudge_judged(event: RecordedEvent, _fact: events.RejudgeJudged) -> list[Step]:
    return [Step("rejudge_moved", _common_values(event) | {"state": "running", "reason": None})]


def _rejudge_previewed(event: RecordedEvent, fact: events.RejudgePreviewed) -> list[Step]:
    values = _common_values(event) | {"diff": fact.diff.digest, "changed_count": fact.changed_count}
    return [Step("rejudge_previewed", values)]


def _rejudge_ended(
    event: RecordedEvent, fact: events.RejudgeApplied | events.RejudgeDiscarded
) -> list[Step]:
    state = "applied" if isinstance(fact, events.RejudgeApplied) else "discarded"
    return [Step("rejudge_moved", _common_values(event) | {"state": state, "reason": fact.reason})]


def _record_set(event: RecordedEvent, fact: events.RecordSet) -> list[Step]:
    values = _leaderboard_values(event) | {
        "problem_number": fact.problem_number,
        "submission": fact.submission,
        "run": fact.run,
        "account": fact.account,
        "score_us": fact.score_us,
        "previous_us": fact.previous_us,
    }
    return [Step("ranking_moved", values), Step("record_set", values)]


def _podium_changed(event: RecordedEvent, fact: events.PodiumChanged) -> list[Step]:
    values = _leaderboard_values(event) | {
        "problem_number": fact.problem_number,
        "accounts": fact.after,
    }
    return [Step("ranking_moved", values), Step("podium_changed", values)]


def _milestone_reached(event: RecordedEvent, fact: events.MilestoneReached) -> list[Step]:
    values = _leaderboard_values(event) | {
        "problem_number": fact.problem_number,
        "milestone": fact.milestone,
        "title": fact.title,
        "account": fact.account,
        "submission": fact.submission,
        "value": fact.value,
    }
    return [Step("ranking_moved", values), Step("milestone_reached", values)]


def _common_values(event: RecordedEvent) -> Values:
    """Values that every statement needs: the aggregate's id, the sequence, the time, the actor."""
    envelope = event.envelope
    return {
        "id": last_token(envelope.agg),
        "seq": event.seq,
        "at": envelope.at,
        "actor": envelope.actor,
    }


def _leaderboard_values(event: RecordedEvent) -> Values:
    _, slug, gpu = event.envelope.agg.split(".")
    return {"problem": slug, "gpu": gpu, "seq": event.seq, "at": event.envelope.at}


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


RULES = (
    StepRule(events.ProblemPublished, _problem_published),
    StepRule(events.LeaderboardChanged, _leaderboard_changed),
    StepRule(events.LeaderboardArchived, _reasoned),
    StepRule(events.ConsentGiven, _consented),
    StepRule(events.ConsentWithdrawn, _consented),
    StepRule(events.AgentRegistered, _agent_registered),
    StepRule(events.AgentEnrolled, _agent_enrolled),
    StepRule(events.AgentRevoked, _agent_revoked),
    StepRule(events.AgentCordoned, _reasoned),
    StepRule(events.AgentDrained, _reasoned),
    StepRule(events.AgentQuarantined, _reasoned),
    StepRule(events.AgentReleased, _reasoned),
    StepRule(events.PoolPaused, _reasoned),
    StepRule(events.PoolResumed, _reasoned),
    StepRule(events.AccountBanned, _account_banned),
    StepRule(events.AccountUnbanned, _reasoned),
    StepRule(events.SubmissionHeld, _kept_off),
    StepRule(events.SubmissionDisqualified, _kept_off),
    StepRule(events.SubmissionReleased, _released),
    StepRule(events.SubmissionRestored, _reasoned),
    StepRule(events.SubmissionWithdrawn, _reasoned),
    StepRule(events.AppealFiled, _appeal_filed),
    StepRule(events.AppealDecided, _appeal_decided),
    StepRule(events.DuelRequested, _duel_requested),
    StepRule(events.DuelJudged, _duel_judged),
    StepRule(events.ConfirmationRequested, _confirmation_requested),
    StepRule(events.ConfirmationJudged, _confirmation_judged),
    StepRule(events.RejudgeRequested, _rejudge_requested),
    StepRule(events.RejudgeJudged, _rejudge_judged),
    StepRule(events.RejudgePreviewed, _rejudge_previewed),
    StepRule(events.RejudgeApplied, _rejudge_ended),
    StepRule(events.RejudgeDiscarded, _rejudge_ended),
    StepRule(events.RecordSet, _record_set),
    StepRule(events.PodiumChanged, _podium_changed),
    StepRule(events.MilestoneReached, _milestone_reached),
)
