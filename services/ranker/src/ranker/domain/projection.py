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
# Events whose own fields are all the values that their statements need.
STATEMENTS: dict[type[Fact], tuple[str, ...]] = {
    events.LeaderboardArchived: ("leaderboard_archived",),
    events.ConsentGiven: ("consent_given",),
    events.ConsentWithdrawn: ("consent_withdrawn",),
    events.AgentEnrolled: ("agent_key_changed", "agent_enrolled"),
    events.AgentCordoned: ("agent_cordoned",),
    events.AgentDrained: ("agent_drained",),
    events.AgentQuarantined: ("agent_quarantined",),
    events.AgentReleased: ("agent_released",),
    events.PoolPaused: ("pool_paused",),
    events.PoolResumed: ("pool_resumed",),
    events.AccountBanned: ("account_banned",),
    events.AccountUnbanned: ("account_unbanned",),
    events.SubmissionRestored: ("submission_restored",),
    events.SubmissionWithdrawn: ("submission_withdrawn",),
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


def _plain(event: RecordedEvent, fact: Fact) -> list[Step]:
    values = _values(event, fact)
    return [Step(statement, values) for statement in STATEMENTS[type(fact)]]


def _problem_published(event: RecordedEvent, fact: events.ProblemPublished) -> list[Step]:
    accepted, report = fact.files.get(fact.consent), fact.report
    values = _values(event, fact) | {
        "slug": last_token(event.envelope.agg),
        "manifest": fact.manifest.digest,
        "cases_count": _to_json(fact.cases_count),
        "budgets_s": _to_json(fact.budgets_s),
        "roofs": _to_json(fact.roofs),
        "baselines": _to_json(fact.baselines),
        "milestones": _to_json(fact.milestones),
        "consent": "" if accepted is None else accepted.digest,
        "report": "" if report is None else report.digest,
    }
    return [Step("problem_published", values)]


def _leaderboard_changed(event: RecordedEvent, fact: events.LeaderboardChanged) -> list[Step]:
    values = _values(event, fact) | {
        "is_deadline_said": fact.has_deadline is not None,
        "deadline_at": fact.deadline_at if fact.has_deadline else None,
    }
    return [Step("leaderboard_changed", values)]


def _agent_registered(event: RecordedEvent, fact: events.AgentRegistered) -> list[Step]:
    digest = fact.details.get(HARNESS_CODE, "")
    values = _values(event, fact) | {
        "details": _to_json(fact.details),
        "missing": _to_json(fact.missing),
        "toolchains": _to_json(fact.toolchains),
        "digest": digest,
        "version": fact.harness,
    }
    names = ["agent_registered", "agent_harness_changed"]
    names += ["harness_seen"] if DIGEST.match(digest) else []
    return [Step(name, values) for name in names]


def _agent_revoked(event: RecordedEvent, fact: events.AgentRevoked) -> list[Step]:
    values = _values(event, fact) | {"sign_key": None}
    return [Step("agent_key_changed", values), Step("agent_revoked", values)]


def _kept_off(
    event: RecordedEvent, fact: events.SubmissionHeld | events.SubmissionDisqualified
) -> list[Step]:
    evidence = fact.evidence.digest if fact.evidence is not None else None
    is_held = isinstance(fact, events.SubmissionHeld)
    statement = "submission_held" if is_held else "submission_disqualified"
    return [Step(statement, _values(event, fact) | {"evidence": evidence})]


def _released(event: RecordedEvent, fact: events.SubmissionReleased) -> list[Step]:
    return [Step("submission_released", _values(event, fact)), _lifted(event, fact)]


def _lifted(event: RecordedEvent, fact: events.SubmissionReleased | events.AppealDecided) -> Step:
    """Let a run that was held for a time under its floor count again."""
    values = {"code": BELOW_FLOOR, "reason": RELEASE_REASON.format(reason=fact.reason)}
    return Step("floor_lifted", _values(event, fact) | values)


def _appeal_filed(event: RecordedEvent, fact: events.AppealFiled) -> list[Step]:
    return [Step("appeal_filed", _values(event, fact) | {"text": fact.text.digest})]


def _appeal_decided(event: RecordedEvent, fact: events.AppealDecided) -> list[Step]:
    lifted = [_lifted(event, fact)] if fact.is_accepted else []
    return [Step("appeal_decided", _values(event, fact)), *lifted]


def _duel_requested(event: RecordedEvent, fact: events.DuelRequested) -> list[Step]:
    values = _values(event, fact) | {
        "first_number": fact.first.number,
        "second_number": fact.second.number,
        "first_source": fact.first.source.digest,
        "second_source": fact.second.source.digest,
    }
    return [Step("duel_requested", values)]


def _duel_judged(event: RecordedEvent, fact: events.DuelJudged) -> list[Step]:
    result = fact.result
    low, high = (result and result.interval) or (None, None)
    is_decided = result is not None and result.ratio is not None and low is not None
    values = _values(event, fact) | {
        "winner": result.winner if result else None,
        "ratio": result.ratio if result else None,
        "low": low,
        "high": high,
    }
    names = ("duel_judged", "duel_unwon", "duel_won") if is_decided else ("duel_judged",)
    return [Step(name, values) for name in names]


def _confirmation_requested(event: RecordedEvent, fact: events.ConfirmationRequested) -> list[Step]:
    values = _values(event, fact) | {"submission": fact.item.submission}
    return [Step("confirmation_requested", values)]


def _confirmation_judged(event: RecordedEvent, fact: events.ConfirmationJudged) -> list[Step]:
    return [Step("confirmation_judged", _values(event, fact) | {"shown": confirmation_text(fact)})]


def _rejudge_requested(event: RecordedEvent, fact: events.RejudgeRequested) -> list[Step]:
    return [Step("rejudge_requested", _values(event, fact) | {"count": len(fact.items)})]


def _rejudge_previewed(event: RecordedEvent, fact: events.RejudgePreviewed) -> list[Step]:
    return [Step("rejudge_previewed", _values(event, fact) | {"diff": fact.diff.digest})]


def _rejudge_judged(event: RecordedEvent, fact: events.RejudgeJudged) -> list[Step]:
    values = _values(event, fact) | {"state": "running", "reason": None}
    return [Step("rejudge_moved", values)]


def _rejudge_ended(
    event: RecordedEvent, fact: events.RejudgeApplied | events.RejudgeDiscarded
) -> list[Step]:
    state = "applied" if isinstance(fact, events.RejudgeApplied) else "discarded"
    return [Step("rejudge_moved", _values(event, fact) | {"state": state})]


# By the class of what was announced on a leaderboard.
ANNOUNCEMENT_STATEMENTS: dict[type[Fact], str] = {
    events.RecordSet: "record_set",
    events.PodiumChanged: "podium_changed",
    events.MilestoneReached: "milestone_reached",
}


def _announced(event: RecordedEvent, fact: Fact) -> list[Step]:
    _, slug, gpu = event.envelope.agg.split(".")
    values = _values(event, fact) | {"problem": slug, "gpu": gpu}
    return [Step("ranking_moved", values), Step(ANNOUNCEMENT_STATEMENTS[type(fact)], values)]


def _values(event: RecordedEvent, fact: Fact) -> Values:
    """The fields of a fact, and its aggregate's id, its sequence, its time and its actor."""
    envelope = event.envelope
    return msgspec.structs.asdict(fact) | {
        "id": last_token(envelope.agg),
        "seq": event.seq,
        "at": envelope.at,
        "actor": envelope.actor,
    }


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


RULES: tuple[StepRule[Any], ...] = (
    *(StepRule(kind, _plain) for kind in STATEMENTS),
    StepRule(events.ProblemPublished, _problem_published),
    StepRule(events.LeaderboardChanged, _leaderboard_changed),
    StepRule(events.AgentRegistered, _agent_registered),
    StepRule(events.AgentRevoked, _agent_revoked),
    StepRule(events.SubmissionHeld, _kept_off),
    StepRule(events.SubmissionDisqualified, _kept_off),
    StepRule(events.SubmissionReleased, _released),
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
    *(StepRule(kind, _announced) for kind in ANNOUNCEMENT_STATEMENTS),
)
