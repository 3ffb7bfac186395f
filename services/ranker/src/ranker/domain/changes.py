"""How jobs and runs move submissions, and the items of a rejudge, from state to state."""

from collections.abc import Callable
from typing import Any

import msgspec

from ranker.domain.batch import Rows, Told
from ranker.domain.rows import GIVEN_UP, Item, Run, Submission, Work
from shared import events
from shared.ids import submission_job

CANARY = "canary"
# A run has fewer; an agent may claim more.
STAGES_MAX = 16
encode = msgspec.json.Encoder().encode
Raw = msgspec.Raw


def noted(work: Work | None, told: Told, text: str) -> None:
    """Keep an event in the life of the submission that it belongs to."""
    if work is not None:
        work.note(told.event, text)


def _received(rows: Rows, told: Told) -> None:
    event, fact = told.event, told.fact
    assert isinstance(fact, events.SubmissionReceived)
    made = Submission(
        id=told.id,
        number=event.seq,
        version=event.seq,
        account=fact.account,
        problem=fact.problem,
        problem_number=fact.problem_number,
        gpu=fact.gpu,
        mode=fact.mode,
        name=fact.name,
        source=fact.source.digest,
        source_bytes=fact.source.bytes,
        source_media=fact.source.media,
        received_at=event.envelope.at,
        deadline_at=fact.deadline_at,
        state="queued" if fact.is_queued else "received",
        state_at=event.envelope.at,
        job=submission_job(told.id) if fact.is_queued else None,
        baseline=fact.baseline,
    )
    rows.add([made], ())
    noted(made, told, f"{fact.mode} on {fact.gpu}, version {fact.problem_number} of {fact.problem}")


def _cancel_requested(rows: Rows, told: Told) -> None:
    assert isinstance(told.fact, events.SubmissionCancelRequested)
    submission = rows.submissions.get(told.id)
    if submission is not None:
        submission.version = told.event.seq
        noted(submission, told, told.fact.reason)


def _job_queued(rows: Rows, told: Told) -> None:
    fact = told.fact
    assert isinstance(fact, events.JobQueued)
    if fact.class_ == CANARY or fact.duel or fact.confirmation:
        return
    work: Work | None = rows.submissions.get(fact.submission)
    if fact.rejudge:
        work = rows.items.get((fact.rejudge, fact.submission))
    if work is None or work.is_over:
        return
    work.job = told.id
    work.move("queued", told.event.envelope.at)
    rows.jobs[told.id] = work
    noted(work, told, f"waits for an agent with {fact.gpu}")


def _job_leased(rows: Rows, told: Told) -> None:
    """Only the run that a lease names may speak for the submission."""
    fact, work = told.fact, rows.jobs.get(told.id)
    assert isinstance(fact, events.JobLeased)
    if work is None:
        return
    if not work.is_over:
        work.run, work.agent, work.attempt = fact.run, fact.agent, fact.attempt
        work.lease_until_at = fact.lease_until_at
        work.move("assigned", told.event.envelope.at)
    noted(work, told, f"given to agent {fact.agent}, attempt {fact.attempt}")


def _job_requeued(rows: Rows, told: Told) -> None:
    fact, work = told.fact, rows.jobs.get(told.id)
    assert isinstance(fact, events.JobRequeued)
    if work is not None and not work.is_over and work.run == fact.run:
        work.run, work.agent, work.lease_until_at = None, None, None
        work.move("queued", told.event.envelope.at)
    noted(work, told, fact.reason)


def _job_finished(rows: Rows, told: Told) -> None:
    assert isinstance(told.fact, events.JobFinished)
    noted(rows.jobs.get(told.id), told, told.fact.verdict)


def _job_ended(rows: Rows, told: Told) -> None:
    """A job of a rejudge without a verdict has none there; a submission has an end of its own."""
    fact, work = told.fact, rows.jobs.get(told.id)
    assert isinstance(fact, events.JobGivenUp | events.JobCancelled)
    if isinstance(work, Item) and not work.is_over:
        work.reason = fact.reason
        work.move(GIVEN_UP, told.event.envelope.at)
    noted(work, told, fact.reason)


def _job_assigned(rows: Rows, told: Told) -> None:
    event, fact = told.event, told.fact
    assert isinstance(fact, events.JobAssigned)
    agent = event.envelope.agg.split(".")[1]
    is_member = bool(fact.gang) and fact.gang[0] != agent
    if is_member or fact.class_ == CANARY:
        return
    work = rows.jobs.get(fact.job)
    # The lease, which no agent can write, comes first: an order that it does not name is forged.
    # Before the scheduler's own order its agent may write one, so nothing else in it is believed.
    if work is None or (work.run, work.agent) != (told.id, agent):
        return
    rows.changed.add(told.id)
    rows.runs[told.id] = Run(
        id=told.id,
        submission=work.submission if isinstance(work, Item) else work.id,
        job=fact.job,
        agent=agent,
        attempt=work.attempt,
        token=event.seq,
        assigned_at=event.envelope.at,
    )


def _run_of(rows: Rows, told: Told) -> tuple[Run | None, Work | None]:
    """The run, and what it speaks for if a lease names it."""
    run = rows.runs.get(told.id)
    if run is None or run.agent != told.event.envelope.agg.split(".")[1]:
        return None, None
    return run, rows.jobs.get(run.job)


def _speaks(run: Run, work: Work | None) -> bool:
    return work is not None and work.run == run.id and work.agent == run.agent


def _run_started(rows: Rows, told: Told) -> None:
    fact = told.fact
    assert isinstance(fact, events.RunStarted)
    run, work = _run_of(rows, told)
    if run is None or run.ended_at is not None or run.started_at is not None:
        return
    at = told.event.envelope.at
    rows.changed.add(run.id)
    run.started_at, run.level, run.tier = at, fact.level, fact.tier
    run.missing, run.fingerprint, run.key_commit = fact.missing, fact.fingerprint, fact.key_commit
    if work is not None and _speaks(run, work) and work.state == "assigned":
        work.move("running", at)
    noted(work, told, f"isolation {fact.level}, timing tier {fact.tier}")


def _run_stage_finished(rows: Rows, told: Told) -> None:
    fact = told.fact
    assert isinstance(fact, events.RunStageFinished)
    run, work = _run_of(rows, told)
    if run is None or run.ended_at is not None:
        return
    rows.changed.add(run.id)
    run.stage = fact.stage
    noted(work, told, f"{fact.stage}: {fact.verdict}, {fact.cases} cases in {fact.took_s:.2f} s")


def _run_completed(rows: Rows, told: Told) -> None:
    """A verdict is there; the decision on eligibility is due."""
    fact = told.fact
    assert isinstance(fact, events.RunCompleted)
    run, work = _run_of(rows, told)
    if run is None or run.ended_at is not None:  # after the end of its lease nothing counts
        return
    rows.changed.add(run.id)
    at = told.event.envelope.at
    run.ended_at, run.ended_seq = at, told.event.seq
    run.stage, run.verdict, run.reason = fact.stage, fact.verdict, fact.reason
    run.took_s, run.sigma_run, run.tie_us = fact.took_s, fact.sigma_run, fact.tie_us
    run.cases, run.environment = Raw(encode(fact.cases)), Raw(encode(fact.environment))
    run.files, run.usage = Raw(encode(_files(fact))), Raw(encode(fact.usage))
    run.log_head, run.log_tail, run.key = fact.log_head, fact.log_tail, fact.key
    if work is not None and _speaks(run, work) and not work.is_over:
        work.move("ranking", at)
        if isinstance(work, Submission):
            work.cases_passed = _passed(fact)
    noted(work, told, f"{fact.verdict} in {fact.took_s:.2f} s{_stages_text(fact)}")


def _stages_text(fact: events.RunCompleted | events.RunFailed) -> str:
    """The stages that ended, as the end of a sentence; "" if an older run does not name them."""
    said = (
        f"{stage.stage} {stage.verdict} in {stage.took_s:.2f} s"
        for stage in fact.stages[:STAGES_MAX]
    )
    text = ", ".join(said)
    return f": {text}" if text else ""


def _passed(fact: events.RunCompleted) -> int:
    """How many of the cases that are shown had the right answer."""
    shown = (case for case in fact.cases if case.stage == "check" and not case.is_hidden)
    return sum(case.verdict == "passed" for case in shown)


def _files(fact: events.RunCompleted) -> list[dict[str, Any]]:
    """What can be downloaded of a run, by name."""
    kept = [("log.txt", fact.log), ("samples.json.gz", fact.samples)]
    kept += [(one.name, one.blob) for one in fact.artefacts]
    return [
        {"name": name, "media": blob.media, "bytes": blob.bytes, "digest": blob.digest}
        for name, blob in kept
        if blob is not None
    ]


def _run_over(rows: Rows, told: Told) -> None:
    fact = told.fact
    assert isinstance(fact, events.RunFailed | events.JobExpired | events.RunCancelled)
    run, work = _run_of(rows, told)
    if run is None or run.ended_at is not None:
        return
    rows.changed.add(run.id)
    run.ended_at, run.reason = told.event.envelope.at, fact.reason
    stages = _stages_text(fact) if isinstance(fact, events.RunFailed) else ""
    noted(work, told, f"{fact.reason}{stages}")


def _run_discarded(rows: Rows, told: Told) -> None:
    assert isinstance(told.fact, events.RunDiscarded)
    _, work = _run_of(rows, told)
    noted(work, told, f"a result came after the lease: {told.fact.verdict}")


CHANGES: dict[str, Callable[[Rows, Told], None]] = {
    "SubmissionReceived": _received,
    "SubmissionCancelRequested": _cancel_requested,
    "JobQueued": _job_queued,
    "JobLeased": _job_leased,
    "JobRequeued": _job_requeued,
    "JobFinished": _job_finished,
    "JobGivenUp": _job_ended,
    "JobCancelled": _job_ended,
    "JobAssigned": _job_assigned,
    "RunStarted": _run_started,
    "RunStageFinished": _run_stage_finished,
    "RunCompleted": _run_completed,
    "RunFailed": _run_over,
    "JobExpired": _run_over,
    "RunCancelled": _run_over,
    "RunDiscarded": _run_discarded,
}
