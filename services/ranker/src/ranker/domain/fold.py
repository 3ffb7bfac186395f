"""Folds a batch of events, in memory, into the rows that it changes and the statements it needs."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from ranker.domain import changes
from ranker.domain.conclusion import confirmation_text
from ranker.domain.goals import HELD_WITH_SCORE
from ranker.domain.rows import DecodedEvent, RequiredRows, Rows, Step, encode_weighted
from ranker.domain.score import slow_end_us
from shared import events
from shared.contests.visibility import list_embargoes
from shared.event_log import RecordedEvent
from shared.events import HARNESS_CODE, Fact
from shared.subjects import job_id_of, last_token
from shared.wire import UNREADABLE, is_genuine, is_written_by_agent

Values = dict[str, Any]
F = TypeVar("F", bound=Fact)

NUL = b"\\u0000"
DIGEST = re.compile(r"[0-9a-f]{64}\Z")
# The verdicts that an equal source would get again. The others depend on how busy a machine is.
CACHED_VERDICTS = (
    *("passed", "wrong_answer", "late_write", "compile_error", "import_error", "policy"),
    *("crashed", "suspicious"),
)
# A verdict is cached for so many later events: with 32 items a chunk, at most 6.4 times as many.
VERDICT_EVENTS_MAX = 1_000_000
# Events without rows here. Every class is named here or has a rule: tests/ranker/test_fold.py.
IGNORED: frozenset[type[Fact]] = frozenset(
    (
        *(events.AccountOpened, events.IdentityLinked, events.IdentityUnlinked, events.TokenIssued),
        *(events.TokenRevoked, events.RoleGranted, events.RoleRevoked, events.PreferenceSet),
        *(events.InviteIssued, events.InviteRedeemed, events.InviteRevoked, events.WebhookAdded),
        *(events.WebhookRemoved, events.CanaryChosen, events.CanaryRemoved),
        *(events.IntakePaused, events.IntakeResumed, events.AuditSealed, events.ProjectionSwitched),
        *(events.EventSkipped, events.DeadLetterRedriven, events.LogImported),
        *(events.AccountTablesAdopted, events.OperatorActed, events.BanAppealFiled),
        *(events.BanAppealDecided, events.QuotaTaken, events.QuotaReturned, events.QuotaLimitSet),
        *(events.RunReleased, events.LauncherRegistered, events.InstanceRequested),
        *(events.InstanceEnded, events.SubmissionsOpened, events.SealKeyChanged),
        *(events.ProblemCheckRequested, events.DeviceTimeReserved, events.DeviceTimeSettled),
        *(events.ChunkStopRequested, events.SlotReserved, events.SegmentSealed),
        *(events.ContestInviteIssued, events.ContestTeamCodeChanged),
        *(events.MergeOffered, events.MergeReceived, events.MergeReturned, events.QuotaShared),
        *(events.DeviceTimeShared, events.LogTruncated),
    )
)
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
    events.CanaryJudged: ("canary_judged",),
    events.PoolPaused: ("pool_paused",),
    events.PoolResumed: ("pool_resumed",),
    events.AccountBanned: ("account_banned",),
    events.AccountUnbanned: ("account_unbanned",),
    events.AccountMerged: (
        *("account_merged", "submissions_merged", "results_merged", "items_merged"),
        *("evaluations_merged", "records_merged", "milestones_merged"),
    ),
    events.MergeUndone: (
        *("results_separated", "items_separated", "submissions_separated"),
        *("evaluations_separated", "records_separated", "milestones_separated"),
        "account_separated",
    ),
    events.SubmissionRestored: ("submission_restored",),
    events.SubmissionWithdrawn: ("submission_withdrawn",),
    events.EvaluationCancelRequested: ("evaluation_cancelling",),
    events.EvaluationFinished: ("evaluation_finished",),
    events.ContestRegistrationWithdrawn: ("contest_registration_withdrawn",),
    events.ContestTeamJoined: ("contest_team_joined",),
    events.ContestTeamLeft: ("contest_team_left",),
    events.ContestCaptainChanged: ("contest_captain_changed",),
    events.ContestReviewed: ("contest_reviewed",),
}


class StepRule(NamedTuple, Generic[F]):
    """Which statements an event class runs, beside the rows that it changes."""

    kind: type[F]
    make_steps: Callable[[RecordedEvent, F], list[Step]]


class ValueRule(NamedTuple, Generic[F]):
    """The rule of an event class with one statement, which needs more than the event's fields."""

    kind: type[F]
    statement: str
    extra_values: Callable[[F], Values]

    def make_steps(self, event: RecordedEvent, fact: F) -> list[Step]:
        """The statement with its values."""
        return [Step(self.statement, _values(event, fact) | self.extra_values(fact))]


def _values(event: RecordedEvent, fact: Fact) -> Values:
    envelope = event.envelope
    return msgspec.structs.asdict(fact) | {
        "id": last_token(envelope.aggregate),
        "seq": event.seq,
        "at": envelope.at,
        "actor": envelope.actor,
    }


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _digest(blob: events.Blob | None) -> str | None:
    return None if blob is None else blob.digest


def _plain(event: RecordedEvent, fact: Fact) -> list[Step]:
    values = _values(event, fact)
    return [Step(statement, values) for statement in STATEMENTS[type(fact)]]


def _problem_values(fact: events.ProblemPublished) -> Values:
    lists = ("cases_count", "budgets_s", "baselines", "milestones")
    return {name: _to_json(getattr(fact, name)) for name in lists} | {
        "roofs": encode_weighted(fact.roofs).decode(),
        "manifest": fact.manifest.digest,
        "consent": _digest(fact.files.get(fact.consent)) or "",
        "report": _digest(fact.report) or "",
    }


def _problem_published(event: RecordedEvent, fact: events.ProblemPublished) -> list[Step]:
    values = _values(event, fact)
    return [Step("problem_published", values | {"slug": values["id"]} | _problem_values(fact))]


def _leaderboard_changed(event: RecordedEvent, fact: events.LeaderboardChanged) -> list[Step]:
    values = _values(event, fact) | {
        "is_deadline_said": fact.has_deadline is not None,
        "deadline_at": fact.deadline_at if fact.has_deadline else None,
    }
    names = ["leaderboard_changed", *(["version_tested"] if fact.tested_gpus else [])]
    return [Step(name, values) for name in names]


def _agent_registered(event: RecordedEvent, fact: events.AgentRegistered) -> list[Step]:
    digest = fact.details.get(HARNESS_CODE, "")
    values = _values(event, fact) | {"digest": digest, "version": fact.harness}
    values |= {name: _to_json(values[name]) for name in ("details", "missing", "toolchains")}
    names = ["agent_registered", "agent_harness_changed"]
    names += ["harness_seen"] if DIGEST.match(digest) else []
    return [Step(name, values) for name in names]


def _agent_revoked(event: RecordedEvent, fact: events.AgentRevoked) -> list[Step]:
    values = _values(event, fact) | {"sign_key": None}
    return [Step("agent_key_changed", values), Step("agent_revoked", values)]


def _released(
    event: RecordedEvent, fact: events.SubmissionReleased | events.AppealDecided
) -> list[Step]:
    """A run that was held with its score counts again."""
    is_appeal, values = isinstance(fact, events.AppealDecided), _values(event, fact)
    steps = [Step("appeal_decided" if is_appeal else "submission_released", values)]
    if not isinstance(fact, events.AppealDecided) or fact.is_accepted:
        reason = f"released by an operator: {fact.reason}"
        lifted = {"codes": list(HELD_WITH_SCORE), "reason": reason}
        steps.append(Step("hold_lifted", values | lifted))
    return steps


def _yardstick_fixed(event: RecordedEvent, fact: events.YardstickFixed) -> list[Step]:
    """The unit is fixed, and earlier scores are restated in it."""
    values = _values(event, fact) | {"times_us": _to_json(fact.times_us)}
    steps = [Step("yardstick_fixed", values)]
    for score in fact.restated:
        low_us, high_us = score.interval_us
        slow_us = slow_end_us(score.score_us, score.error, score.freedom, score.delta)
        restated = msgspec.structs.asdict(score) | {"low_us": low_us, "high_us": high_us}
        restated["slow_us"] = slow_us
        steps.append(Step("result_restated", values | restated))
    return steps


def _evidence_values(fact: events.SubmissionHeld | events.SubmissionDisqualified) -> Values:
    return {"evidence": _digest(fact.evidence)}


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


def _evaluation_requested(event: RecordedEvent, fact: events.EvaluationRequested) -> list[Step]:
    run_count = len(fact.sources) - len(fact.cached)
    values = _values(event, fact) | {
        "file": fact.source.digest,
        "cached_count": len(fact.cached),
        "first": run_count,
        "verdicts": [item.verdict for item in fact.cached],
        "results": [item.results.digest for item in fact.cached],
        "lines": [item.line for item in fact.cached],
    }
    names = ["evaluation_requested", *(["evaluation_cached"] if fact.cached else [])]
    return [Step(name, values) for name in names]


def _chunk_leased(event: RecordedEvent, fact: events.JobLeased) -> list[Step]:
    if fact.chunk is None:
        return []
    values = _values(event, fact) | {"evaluation": fact.chunk.evaluation}
    return [Step("evaluation_started", values)]


def _items_ended(event: RecordedEvent, fact: events.JobFinished | events.JobRequeued) -> list[Step]:
    """Items have verdicts, which equal sources may get without a run of their own."""
    result = fact.result
    if result is None:
        return []
    values = _values(event, fact) | msgspec.structs.asdict(result)
    values |= {
        "count": len(result.verdicts),
        "results": result.results.digest,
        "kept": list(CACHED_VERDICTS),
        "events_kept": VERDICT_EVENTS_MAX,
    }
    names = ["evaluation_items_ended"]
    names += ["verdicts_cached", "verdicts_forgotten"] if result.harness else []
    return [Step(name, values) for name in names]


def _items_lost(event: RecordedEvent, fact: events.JobGivenUp | events.JobCancelled) -> list[Step]:
    if fact.chunk is None:
        return []
    is_cancelled = isinstance(fact, events.JobCancelled)
    outcome = "cancelled" if is_cancelled else "failed"
    values = _values(event, fact) | msgspec.structs.asdict(fact.chunk) | {"outcome": outcome}
    values["code"] = "cancelled" if isinstance(fact, events.JobCancelled) else fact.code
    return [Step("evaluation_items_lost", values)]


def _contest_published(event: RecordedEvent, fact: events.ContestPublished) -> list[Step]:
    values = _values(event, fact) | {
        "definition": _to_json(fact.contest),
        "organisers": fact.contest.organisers,
        "embargoes": _to_json(list_embargoes(fact.contest)),
    }
    names = ("contest_published", "contest_embargoes_removed", "contest_embargoes_added")
    return [Step(name, values) for name in names]


def _contest_team_created(event: RecordedEvent, fact: events.ContestTeamCreated) -> list[Step]:
    values = _values(event, fact)
    joined = values | {"account": fact.captain}
    return [Step("contest_team_created", values), Step("contest_team_joined", joined)]


def _contest_declared(event: RecordedEvent, fact: events.ContestDeclared) -> list[Step]:
    """A contestant is a person or a team, which have rows of their own; so below."""
    values = _values(event, fact) | {"declared": _to_json(fact.declaration)}
    return [Step(name, values) for name in ("contest_person_declared", "contest_team_declared")]


def _contest_questioned(
    event: RecordedEvent,
    fact: events.ContestDeclarationQuestioned | events.ContestDeclarationAccepted,
) -> list[Step]:
    is_question = isinstance(fact, events.ContestDeclarationQuestioned)
    values = _values(event, fact) | {"question": fact.reason if is_question else None}
    names = ("contest_person_questioned", "contest_team_questioned")
    return [Step(name, values) for name in names]


def _contest_disqualified(
    event: RecordedEvent, fact: events.ContestDisqualified | events.ContestRestored
) -> list[Step]:
    values = _values(event, fact)
    values["is_disqualified"] = isinstance(fact, events.ContestDisqualified)
    names = ("contest_person_disqualified", "contest_team_disqualified")
    return [Step(name, values) for name in names]


def _finalists_values(fact: events.ContestFinalistsAdmitted) -> Values:
    places = [{"contestant": contestant} for contestant in fact.contestants]
    return {"stage": "finalists", "listed": _to_json(places), "appeals": None}


def _results_values(
    fact: events.ContestResultsProposed | events.ContestResultsConfirmed,
) -> Values:
    encoded = _to_json(fact.places)
    if isinstance(fact, events.ContestResultsConfirmed):
        return {"stage": "confirmed", "listed": encoded, "appeals": None}
    return {"stage": "proposed", "listed": encoded, "appeals": fact.appeals_until_at}


# By the class of what was announced on a leaderboard.
ANNOUNCEMENT_STATEMENTS: dict[type[Fact], str] = {
    events.RecordSet: "record_set",
    events.PodiumChanged: "podium_changed",
    events.MilestoneReached: "milestone_reached",
}


def _announced(event: RecordedEvent, fact: Fact) -> list[Step]:
    _, slug, gpu = event.envelope.aggregate.split(".")
    values = _values(event, fact) | {"problem": slug, "gpu": gpu}
    return [Step("ranking_moved", values), Step(ANNOUNCEMENT_STATEMENTS[type(fact)], values)]


# mypy checks that each function takes the class that it is listed with.
_STEP_RULES: tuple[StepRule[Any] | ValueRule[Any], ...] = (
    *(StepRule(kind, _plain) for kind in STATEMENTS),
    StepRule(events.ProblemPublished, _problem_published),
    StepRule(events.LeaderboardChanged, _leaderboard_changed),
    StepRule(events.AgentRegistered, _agent_registered),
    StepRule(events.AgentRevoked, _agent_revoked),
    ValueRule(events.SubmissionHeld, "submission_held", _evidence_values),
    ValueRule(events.SubmissionDisqualified, "submission_disqualified", _evidence_values),
    StepRule(events.SubmissionReleased, _released),
    StepRule(events.YardstickFixed, _yardstick_fixed),
    ValueRule(events.AppealFiled, "appeal_filed", lambda fact: {"text": fact.text.digest}),
    StepRule(events.AppealDecided, _released),
    ValueRule(
        events.DuelRequested,
        "duel_requested",
        lambda fact: {
            "first_number": fact.first.number,
            "second_number": fact.second.number,
            "first_source": fact.first.pooling_digest,
            "second_source": fact.second.pooling_digest,
        },
    ),
    StepRule(events.DuelJudged, _duel_judged),
    ValueRule(
        events.ConfirmationRequested,
        "confirmation_requested",
        lambda fact: {"submission": fact.item.submission},
    ),
    ValueRule(
        events.ConfirmationJudged,
        "confirmation_judged",
        lambda fact: {"shown": confirmation_text(fact)},
    ),
    ValueRule(
        events.RejudgeRequested, "rejudge_requested", lambda fact: {"count": len(fact.items)}
    ),
    ValueRule(
        events.RejudgeJudged, "rejudge_moved", lambda _fact: {"state": "running", "reason": None}
    ),
    ValueRule(
        events.RejudgePreviewed, "rejudge_previewed", lambda fact: {"diff": fact.diff.digest}
    ),
    ValueRule(events.RejudgeApplied, "rejudge_moved", lambda _fact: {"state": "applied"}),
    ValueRule(events.RejudgeDiscarded, "rejudge_moved", lambda _fact: {"state": "discarded"}),
    *(StepRule(kind, _announced) for kind in ANNOUNCEMENT_STATEMENTS),
    StepRule(events.EvaluationRequested, _evaluation_requested),
    StepRule(events.JobLeased, _chunk_leased),
    StepRule(events.JobFinished, _items_ended),
    StepRule(events.JobRequeued, _items_ended),
    StepRule(events.JobGivenUp, _items_lost),
    StepRule(events.JobCancelled, _items_lost),
    StepRule(events.ContestPublished, _contest_published),
    ValueRule(
        events.ContestRegistered,
        "contest_registered",
        lambda fact: {"declared": _to_json(fact.declaration)},
    ),
    StepRule(events.ContestTeamCreated, _contest_team_created),
    StepRule(events.ContestDeclared, _contest_declared),
    StepRule(events.ContestDeclarationQuestioned, _contest_questioned),
    StepRule(events.ContestDeclarationAccepted, _contest_questioned),
    StepRule(events.ContestDisqualified, _contest_disqualified),
    StepRule(events.ContestRestored, _contest_disqualified),
    ValueRule(events.ContestFinalistsAdmitted, "contest_result_announced", _finalists_values),
    ValueRule(events.ContestResultsProposed, "contest_result_announced", _results_values),
    ValueRule(events.ContestResultsConfirmed, "contest_result_announced", _results_values),
)
STEPS: dict[type[Fact], Callable[[RecordedEvent, Any], list[Step]]] = {
    rule.kind: rule.make_steps for rule in _STEP_RULES
}
CHANGES: dict[type[Fact], Callable[[Rows, DecodedEvent, Any], None]] = {
    rule.kind: rule.change for rule in changes.RULES
}


def decode_event(event: RecordedEvent) -> DecodedEvent:
    """Decode an event and drop NUL characters. Raises UnknownEvent or msgspec errors for bad data.

    An agent's unreadable event becomes an empty fact, so that the checkpoint moves past it.
    """
    try:
        fact = event.fact
    except msgspec.MsgspecError:
        if not is_written_by_agent(event.envelope):
            raise
        envelope = msgspec.structs.replace(event.envelope, type=UNREADABLE)
        return DecodedEvent(
            event._replace(envelope=envelope), Fact(), last_token(envelope.aggregate)
        )
    if NUL in event.body:
        fact = msgspec.convert(_strip_nul(msgspec.to_builtins(fact)), type(fact))
    return DecodedEvent(event, fact, last_token(event.envelope.aggregate))


def _strip_nul(value: Any) -> Any:
    """The same value without NUL characters, which Postgres cannot store."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {_strip_nul(key): _strip_nul(item) for key, item in value.items()}
    return [_strip_nul(item) for item in value] if isinstance(value, list | tuple) else value


def find_required_rows(  # noqa: C901  (one case for each kind of history)
    batch: Iterable[DecodedEvent],
) -> RequiredRows:
    """The rows that must be loaded before a batch can be folded."""
    required, created = RequiredRows(), RequiredRows()
    for event in batch:
        match event.fact.aggregate, event.fact:
            case "submission", events.SubmissionReceived():
                created.submissions.add(event.id)
                created.jobs.add(job_id_of(event.id))
            case "submission" | "moderation", _:
                required.submissions.add(event.id)
            case "job", events.JobQueued() as fact:
                created.jobs.add(event.id)
                if fact.rejudge:
                    required.rejudges.add(fact.rejudge)
            case "job", _:
                required.jobs.add(event.id)
            case "run" | "report", events.JobAssigned() as fact:
                created.runs.add(event.id)
                required.jobs.add(fact.job)
            case "run" | "report", _:
                required.runs.add(event.id)
            case "rejudge", fact:
                required.rejudges.add(event.id)
                if isinstance(fact, events.RejudgeRequested):
                    required.submissions.update(item.submission for item in fact.items)
                if isinstance(fact, events.RejudgeApplied | events.RejudgeDiscarded):
                    required.ended.add(event.id)
    required.submissions -= created.submissions
    required.jobs -= created.jobs
    required.runs -= created.runs
    return required


def fold(rows: Rows, batch: Iterable[DecodedEvent]) -> Rows:
    """The rows after a batch; events about rows that do not exist, or forged ones, are ignored."""
    for decoded in batch:
        event, fact = decoded.event, decoded.fact
        if not is_genuine(event.envelope):
            continue
        kind = type(fact)
        change = CHANGES.get(kind)
        if change is not None:
            change(rows, decoded, fact)
        make_steps = STEPS.get(kind)
        if make_steps is not None:
            rows.steps += make_steps(event, fact)
    return rows
