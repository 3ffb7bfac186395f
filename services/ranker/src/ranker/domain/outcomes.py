"""What ends, moderation and rejudges make of submissions, and of the results that are ranked."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from ranker.domain.batch import Rows, Told
from ranker.domain.changes import encode, noted
from ranker.domain.rows import FINISHED, Item, Result, Submission
from ranker.domain.score import DELTA_MIN
from shared import events
from shared.events import SubmissionFinished


def _rejected(rows: Rows, told: Told) -> None:
    fact = told.fact
    assert isinstance(fact, events.SubmissionRejected)
    end = SubmissionFinished(
        outcome="failed", is_eligible=False, code=fact.code, reason=fact.reason
    )
    _end(rows, told, end)


def _finished(rows: Rows, told: Told) -> None:
    assert isinstance(told.fact, SubmissionFinished)
    _end(rows, told, told.fact)


def _end(rows: Rows, told: Told, end: SubmissionFinished) -> None:
    """The one end of a submission; a second one, which the log refuses, would change nothing."""
    submission = rows.submissions.get(told.id)
    if submission is None:
        return
    at, seq = told.event.envelope.at, told.event.seq
    if not submission.is_over:
        submission.move(FINISHED, at)
        submission.version, submission.finished_at = seq, at
        submission.outcome, submission.verdict = end.outcome, end.verdict
        submission.code, submission.reason = end.code, end.reason
        submission.is_eligible, submission.is_held = end.is_eligible, end.is_held
        if end.score_us is not None:
            _result(rows, submission, submission.problem_number, end, (seq, at, ""))
    noted(submission, told, f"{end.outcome}: {end.reason}")


def _result(
    rows: Rows,
    submission: Submission,
    problem_number: int,
    end: SubmissionFinished,
    since: tuple[int, datetime, str],
) -> None:
    """Let an end count under a problem version, since an event and by a rejudge or not."""
    low, high = end.interval_us or (None, None)
    seq, at, rejudge = since
    rows.touched.add(submission.id)
    rows.results[submission.id, problem_number] = Result(
        submission=submission.id,
        problem_number=problem_number,
        problem=submission.problem,
        gpu=submission.gpu,
        account=submission.account,
        number=submission.number,
        source=submission.source,
        seq=seq,
        rejudge=rejudge,
        run=end.run,
        verdict=end.verdict,
        is_eligible=end.is_eligible and end.score_us is not None,
        code=end.code,
        reason=end.reason,
        score_us=end.score_us,
        low_us=low,
        high_us=high,
        process_us=end.process_us,
        error=end.error,
        freedom=end.freedom,
        sigma_run=end.sigma_run,
        delta=DELTA_MIN if end.delta is None else end.delta,
        grade=end.grade,
        is_provisional=end.is_provisional,
        received_at=submission.received_at,
        at=at,
    )


def _moderated(rows: Rows, told: Told) -> None:
    """What was decided is a row of its own; the submission's places are chosen again."""
    rows.touched.add(told.id)
    noted(rows.submissions.get(told.id), told, getattr(told.fact, "reason", "an appeal was filed"))


def _rejudge_requested(rows: Rows, told: Told) -> None:
    fact = told.fact
    assert isinstance(fact, events.RejudgeRequested)
    for item in fact.items:
        rows.items[told.id, item.submission] = Item(
            rejudge=told.id,
            submission=item.submission,
            to_number=fact.to_number,
            account=item.account,
            gpu=item.gpu,
            state="waiting",
            state_at=told.event.envelope.at,
        )


def _rejudge_judged(rows: Rows, told: Told) -> None:
    fact = told.fact
    assert isinstance(fact, events.RejudgeJudged)
    item = rows.items.get((told.id, fact.submission))
    if item is not None:
        item.result = msgspec.Raw(encode(fact.result))
        item.move("judged", told.event.envelope.at)


def _rejudge_applied(rows: Rows, told: Told) -> None:
    apply(rows, told.id, (told.event.seq, told.event.envelope.at))
    for (rejudge, submission), item in rows.items.items():
        if rejudge == told.id:
            text = f"rejudged under version {item.to_number}"
            noted(rows.submissions.get(submission), told, text)


def apply(rows: Rows, rejudge: str, since: tuple[int, datetime]) -> Rows:
    """Let the drafts of a rejudge count, since an event; those that the platform failed do not."""
    for item in list(rows.items.values()):
        submission = rows.submissions.get(item.submission)
        if item.rejudge != rejudge or item.state != "judged" or submission is None:
            continue
        end = msgspec.json.decode(item.result, type=SubmissionFinished)
        if end.outcome != "infra_failed":
            _result(rows, submission, item.to_number, end, (*since, rejudge))
    return rows


def _ban_changed(rows: Rows, told: Told) -> None:
    rows.banned.add(told.id)


CHANGES: dict[str, Callable[[Rows, Told], None]] = {
    "SubmissionRejected": _rejected,
    "SubmissionFinished": _finished,
    "AccountBanned": _ban_changed,
    "AccountUnbanned": _ban_changed,
    "SubmissionHeld": _moderated,
    "SubmissionReleased": _moderated,
    "SubmissionDisqualified": _moderated,
    "SubmissionRestored": _moderated,
    "SubmissionWithdrawn": _moderated,
    "AppealFiled": _moderated,
    "AppealDecided": _moderated,
    "RejudgeRequested": _rejudge_requested,
    "RejudgeJudged": _rejudge_judged,
    "RejudgeApplied": _rejudge_applied,
}
