"""What each event means to the read models: named statements and their values."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ranker.domain.score import DELTA_MIN
from shared import events
from shared.event_log import Recorded
from shared.events import SubmissionFinished
from shared.subjects import last_token

NOTE_LENGTH_MAX = 2000
# What an eligible end changes, in this order.
RANKING = ("source_run_added", "source_scored", "entries_chosen")


class Step(NamedTuple):
    """One named statement of sql/project.sql and its values."""

    statement: str
    values: dict[str, Any]


def _problem_published(event: Recorded, fact: events.ProblemPublished) -> list[Step]:
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
        "at": event.envelope.at,
    }
    return [Step("problem_published", values)]


def _submission_received(event: Recorded, fact: events.SubmissionReceived) -> list[Step]:
    values = {
        "submission": last_token(event.envelope.agg),
        "seq": event.seq,
        "account": fact.account,
        "problem": fact.problem,
        "problem_number": fact.problem_number,
        "gpu": fact.gpu,
        "mode": fact.mode,
        "name": fact.name,
        "source": fact.source.digest,
        "deadline_at": fact.deadline_at,
        "at": event.envelope.at,
    }
    note = f"{fact.mode} on {fact.gpu}, version {fact.problem_number} of {fact.problem}"
    return [Step("submission_received", values), _of_submission(event, note)]


def _submission_rejected(event: Recorded, fact: events.SubmissionRejected) -> list[Step]:
    finished = SubmissionFinished(
        outcome="failed", is_eligible=False, code=fact.code, reason=fact.reason
    )
    return _submission_finished(event, finished)


def _submission_finished(event: Recorded, fact: SubmissionFinished) -> list[Step]:
    low, high = fact.interval_us or (None, None)
    values = {
        "submission": last_token(event.envelope.agg),
        "seq": event.seq,
        "at": event.envelope.at,
        "outcome": fact.outcome,
        "verdict": fact.verdict,
        "code": fact.code,
        "reason": fact.reason,
        "is_eligible": fact.is_eligible,
        "score_us": fact.score_us,
        "low_us": low,
        "high_us": high,
        "process_us": fact.process_us,
        "error": fact.error,
        "freedom": fact.freedom,
        "sigma_run": fact.sigma_run,
        "delta": DELTA_MIN if fact.delta is None else fact.delta,
        "grade": fact.grade,
        "is_provisional": fact.is_provisional,
        "is_held": fact.is_held,
    }
    ended = Step("submission_ended", values)
    ranked = [Step(name, values) for name in RANKING] if fact.is_eligible else []
    return [ended, *ranked, _of_submission(event, f"{fact.outcome}: {fact.reason}")]


def _job_queued(event: Recorded, fact: events.JobQueued) -> list[Step]:
    job = last_token(event.envelope.agg)
    step = Step("job_queued", {"job": job, "submission": fact.submission})
    return [step, _of_job(event, f"waits for an agent with {fact.gpu}")]


def _job_leased(event: Recorded, fact: events.JobLeased) -> list[Step]:
    job = last_token(event.envelope.agg)
    values = {"job": job, "run": fact.run, "agent": fact.agent, "attempt": fact.attempt}
    return [
        Step("job_leased", values),
        _of_job(event, f"given to agent {fact.agent}, attempt {fact.attempt}"),
    ]


def _job_requeued(event: Recorded, fact: events.JobRequeued) -> list[Step]:
    values = {"job": last_token(event.envelope.agg), "run": fact.run}
    return [Step("job_requeued", values), _of_job(event, fact.reason)]


def _job_finished(event: Recorded, fact: events.JobFinished) -> list[Step]:
    return [_of_job(event, fact.verdict)]


def _job_given_up(event: Recorded, fact: events.JobGivenUp) -> list[Step]:
    return [_of_job(event, fact.reason)]


def _job_assigned(event: Recorded, fact: events.JobAssigned) -> list[Step]:
    values = _run(event) | {
        "submission": fact.submission,
        "job": fact.job,
        "attempt": fact.attempt,
    }
    return [Step("job_assigned", values)]


def _run_started(event: Recorded, fact: events.RunStarted) -> list[Step]:
    values = _run(event) | {
        "level": fact.level,
        "tier": fact.tier,
        "missing": fact.missing,
        "fingerprint": fact.fingerprint,
        "key_commit": fact.key_commit,
    }
    return [
        Step("run_started", values),
        Step("submission_running", values),
        _of_run(event, f"isolation {fact.level}, timing tier {fact.tier}"),
    ]


def _run_stage_finished(event: Recorded, fact: events.RunStageFinished) -> list[Step]:
    note = f"{fact.stage}: {fact.verdict}, {fact.cases} cases in {fact.took_s:.2f} s"
    return [Step("run_stage_finished", _run(event) | {"stage": fact.stage}), _of_run(event, note)]


def _run_completed(event: Recorded, fact: events.RunCompleted) -> list[Step]:
    values = _run(event) | {
        "stage": fact.stage,
        "verdict": fact.verdict,
        "reason": fact.reason,
        "took_s": fact.took_s,
        "cases": _json(fact.cases),
        "environment": _json(fact.environment),
        "log_head": fact.log_head,
        "log_tail": fact.log_tail,
        "files": _json(_files(fact)),
        "usage": _json(fact.usage),
        "sigma_run": fact.sigma_run,
        "tie_us": fact.tie_us,
        "key": fact.key,
    }
    return [
        Step("run_completed", values),
        Step("submission_ranking", values),
        _of_run(event, f"{fact.verdict} in {fact.took_s:.2f} s"),
    ]


def _files(fact: events.RunCompleted) -> list[dict[str, Any]]:
    """What can be downloaded of a run, by name."""
    kept = [("log.txt", fact.log), ("samples.json.gz", fact.samples)]
    kept += [(one.name, one.blob) for one in fact.artefacts]
    return [
        {"name": name, "media": blob.media, "bytes": blob.bytes, "digest": blob.digest}
        for name, blob in kept
        if blob is not None
    ]


def _run_over(event: Recorded, fact: events.RunFailed | events.JobExpired) -> list[Step]:
    values = _run(event) | {"reason": fact.reason}
    return [Step("run_ended", values), _of_run(event, fact.reason)]


def _run_discarded(event: Recorded, fact: events.RunDiscarded) -> list[Step]:
    return [_of_run(event, f"a result came after the lease: {fact.verdict}")]


def _agent_registered(event: Recorded, fact: events.AgentRegistered) -> list[Step]:
    values = {
        "agent": last_token(event.envelope.agg),
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
        "at": event.envelope.at,
    }
    return [Step("agent_registered", values)]


_MEANING: dict[str, Callable[[Recorded, Any], list[Step]]] = {
    "ProblemPublished": _problem_published,
    "SubmissionReceived": _submission_received,
    "SubmissionRejected": _submission_rejected,
    "SubmissionFinished": _submission_finished,
    "JobQueued": _job_queued,
    "JobLeased": _job_leased,
    "JobRequeued": _job_requeued,
    "JobFinished": _job_finished,
    "JobGivenUp": _job_given_up,
    "JobAssigned": _job_assigned,
    "RunStarted": _run_started,
    "RunStageFinished": _run_stage_finished,
    "RunCompleted": _run_completed,
    "RunFailed": _run_over,
    "JobExpired": _run_over,
    "RunDiscarded": _run_discarded,
    "AgentRegistered": _agent_registered,
}


def steps(event: Recorded) -> list[Step]:
    """What one event changes in the read models. Errors: UnknownEvent."""
    fact, meaning = event.fact, _MEANING.get(event.envelope.type)
    said = meaning(event, fact) if meaning is not None else []
    return [Step(step.statement, _text(step.values)) for step in said]


def _json(value: object) -> str:
    return msgspec.json.encode(_text(msgspec.to_builtins(value))).decode()


def _text(value: Any) -> Any:
    """The same value without NUL characters, which Postgres cannot keep."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {_text(key): _text(one) for key, one in value.items()}
    return [_text(one) for one in value] if isinstance(value, list) else value


def _run(event: Recorded) -> dict[str, Any]:
    _, agent, run = event.envelope.agg.split(".")
    return {"agent": agent, "run": run, "at": event.envelope.at}


def _noted(event: Recorded, note: str) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "type": event.envelope.type,
        "at": event.envelope.at,
        "note": note[:NOTE_LENGTH_MAX],
    }


def _of_submission(event: Recorded, note: str) -> Step:
    values = _noted(event, note) | {"submission": last_token(event.envelope.agg)}
    return Step("history_of_submission", values)


def _of_job(event: Recorded, note: str) -> Step:
    return Step("history_of_job", _noted(event, note) | {"job": last_token(event.envelope.agg)})


def _of_run(event: Recorded, note: str) -> Step:
    return Step("history_of_run", _noted(event, note) | {"run": last_token(event.envelope.agg)})
