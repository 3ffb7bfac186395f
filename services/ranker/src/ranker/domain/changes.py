"""How events move submissions and rejudge items from state to state, and give them results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from ranker.domain.goals import HELD_WITH_SCORE
from ranker.domain.rows import (
    FINISHED,
    GIVEN_UP,
    DecodedEvent,
    Item,
    Result,
    Rows,
    Run,
    Submission,
    Work,
    encode_weighted,
)
from ranker.domain.score import DELTA_MIN, pool_results
from shared import events
from shared.events import Fact, SubmissionFinished
from shared.subjects import job_id_of

CANARY = "canary"
# A real run has fewer; a hostile agent may claim more.
STAGES_MAX = 16
encode = msgspec.json.Encoder().encode
Raw = msgspec.Raw
# The fields of a result that the preview of a rejudge shows.
SHOWN = ("verdict", "is_eligible", "code", "reason", "score_us")

F = TypeVar("F", bound=Fact)
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ChangeRule(Generic[F]):
    """How an event class changes the rows of submissions, runs and rejudges."""

    kind: type[F]
    change: Callable[[Rows, DecodedEvent, F], None]


def add_timeline_entry(work: Work | None, decoded: DecodedEvent, text: str) -> None:
    """Add an event to the timeline of the submission that it belongs to."""
    if work is not None:
        work.note(decoded.event, text)


def _received(rows: Rows, decoded: DecodedEvent, fact: events.SubmissionReceived) -> None:
    event = decoded.event
    submission = Submission(
        id=decoded.id,
        number=event.seq,
        version=event.seq,
        account=fact.account,
        problem=fact.problem,
        problem_number=fact.problem_number,
        gpu=fact.gpu,
        mode=fact.mode,
        name=fact.name,
        toolchains=fact.requires.toolchains,
        source=fact.source.digest,
        pooling_source=fact.pooling_digest,
        source_bytes=fact.source.bytes,
        source_media=fact.source.media,
        received_at=fact.sent_at or event.envelope.at,
        deadline_at=fact.deadline_at,
        state="queued",
        state_at=event.envelope.at,
        job=job_id_of(decoded.id),
        baseline=fact.baseline,
        parent=fact.parent,
        contest=fact.contest,
        contestant=fact.contestant,
        is_practice=fact.is_practice,
    )
    rows.add([submission], ())
    text = f"{fact.mode} on {fact.gpu}, version {fact.problem_number} of {fact.problem}"
    if fact.via == events.VIA_OPERATOR:
        text = f"submitted again by an operator: {text}"
    add_timeline_entry(submission, decoded, text)


def _cancel_requested(
    rows: Rows, decoded: DecodedEvent, fact: events.SubmissionCancelRequested
) -> None:
    submission = rows.submissions.get(decoded.id)
    if submission is not None:
        submission.version = decoded.event.seq
        add_timeline_entry(submission, decoded, fact.reason)


def _job_queued(rows: Rows, decoded: DecodedEvent, fact: events.JobQueued) -> None:
    work = rows.items.get((fact.rejudge, fact.submission))
    if work is None or work.is_over:
        return
    work.job = decoded.id
    work.move("queued", decoded.event.envelope.at)
    rows.jobs[decoded.id] = work
    add_timeline_entry(work, decoded, f"waits for an agent with {fact.gpu}")


def _job_leased(rows: Rows, decoded: DecodedEvent, fact: events.JobLeased) -> None:
    """Only the run named by a lease may change the submission."""
    work = rows.jobs.get(decoded.id)
    if work is None:
        return
    if not work.is_over:
        work.run, work.agent, work.attempt = fact.run, fact.agent, fact.attempt
        work.lease_until_at = fact.lease_until_at
        work.move("assigned", decoded.event.envelope.at)
    add_timeline_entry(work, decoded, f"given to agent {fact.agent}, attempt {fact.attempt}")


def _job_requeued(rows: Rows, decoded: DecodedEvent, fact: events.JobRequeued) -> None:
    work = rows.jobs.get(decoded.id)
    if work is not None and not work.is_over and work.run == fact.run:
        work.run, work.agent, work.lease_until_at = None, None, None
        work.move("queued", decoded.event.envelope.at)
    add_timeline_entry(work, decoded, fact.reason)


def _job_ended(
    rows: Rows, decoded: DecodedEvent, fact: events.JobGivenUp | events.JobCancelled
) -> None:
    """Without a verdict the item of a rejudge is given up; submissions end by their own event."""
    work = rows.jobs.get(decoded.id)
    if isinstance(work, Item) and not work.is_over:
        work.reason = fact.reason
        work.move(GIVEN_UP, decoded.event.envelope.at)
    add_timeline_entry(work, decoded, fact.reason)


def _job_assigned(rows: Rows, decoded: DecodedEvent, fact: events.JobAssigned) -> None:
    event = decoded.event
    agent = event.envelope.aggregate.split(".")[1]
    is_member = bool(fact.gang) and fact.gang[0] != agent
    if is_member or fact.class_ == CANARY:
        return
    work = rows.jobs.get(fact.job)
    # Agents cannot write the lease, which comes first: an order that it does not name is forged. An
    # agent may write one before the scheduler does, so no other field of it is trusted.
    if work is None or (work.run, work.agent) != (decoded.id, agent):
        return
    rows.changed.add(decoded.id)
    rows.runs[decoded.id] = Run(
        id=decoded.id,
        submission=work.submission if isinstance(work, Item) else work.id,
        job=fact.job,
        agent=agent,
        attempt=work.attempt,
        token=event.seq,
        assigned_at=event.envelope.at,
    )


def _find_run(rows: Rows, decoded: DecodedEvent) -> tuple[Run | None, Work | None]:
    """The run, and its submission or rejudge item if a lease names the run."""
    run = rows.runs.get(decoded.id)
    if run is None or run.agent != decoded.event.envelope.aggregate.split(".")[1]:
        return None, None
    return run, rows.jobs.get(run.job)


def _holds_lease(run: Run, work: Work | None) -> bool:
    return work is not None and work.run == run.id and work.agent == run.agent


def _run_started(rows: Rows, decoded: DecodedEvent, fact: events.RunStarted) -> None:
    run, work = _find_run(rows, decoded)
    if run is None or run.ended_at is not None or run.started_at is not None:
        return
    at = decoded.event.envelope.at
    rows.changed.add(run.id)
    run.started_at, run.level, run.tier = at, fact.level, fact.tier
    run.missing, run.fingerprint, run.key_commit = fact.missing, fact.fingerprint, fact.key_commit
    if work is not None and _holds_lease(run, work) and work.state == "assigned":
        work.move("running", at)
    add_timeline_entry(work, decoded, f"isolation {fact.level}, timing tier {fact.tier}")


def _run_completed(rows: Rows, decoded: DecodedEvent, fact: events.RunCompleted) -> None:
    """The verdict is there; the decision on eligibility is due."""
    run, work = _find_run(rows, decoded)
    if run is None or run.ended_at is not None:  # nothing counts after the end of its lease
        return
    rows.changed.add(run.id)
    at = decoded.event.envelope.at
    run.ended_at, run.ended_seq = at, decoded.event.seq
    run.stage, run.verdict, run.reason = fact.stage, fact.verdict, fact.reason
    run.took_s, run.sigma_run, run.tie_us = fact.took_s, fact.sigma_run, fact.tie_us
    run.cases, run.environment = Raw(encode_weighted(fact.cases)), Raw(encode(fact.environment))
    run.files, run.usage = Raw(encode(_list_files(fact))), Raw(encode(fact.usage))
    run.log_head, run.log_tail, run.key = fact.log_head, fact.log_tail, fact.key
    run.stopped, run.over_limit = fact.stopped, fact.over_limit
    run.metrics = Raw(encode(fact.metrics))
    run.composition = Raw(encode(fact.composition)) if fact.composition is not None else None
    if work is not None and _holds_lease(run, work) and not work.is_over:
        work.move("ranking", at)
        if isinstance(work, Submission):
            work.cases_passed = _count_passed(fact)
    add_timeline_entry(work, decoded, f"{fact.verdict} in {fact.took_s:.2f} s{_stages_text(fact)}")


def _stages_text(fact: events.RunCompleted | events.RunFailed) -> str:
    """The finished stages as the end of a sentence; "" if there are none."""
    stages = (
        f"{stage.stage} {stage.verdict} in {stage.took_s:.2f} s"
        for stage in fact.stages[:STAGES_MAX]
    )
    text = ", ".join(stages)
    return f": {text}" if text else ""


def _count_passed(fact: events.RunCompleted) -> int:
    visible = (case for case in fact.cases if case.stage == "check" and not case.is_hidden)
    return sum(case.verdict == "passed" for case in visible)


def _list_files(fact: events.RunCompleted) -> list[dict[str, Any]]:
    files = [("log.txt", fact.log), ("samples.json.gz", fact.samples)]
    files += [(artefact.name, artefact.blob) for artefact in fact.artefacts]
    return [
        {"name": name, "media": blob.media, "bytes": blob.bytes, "digest": blob.digest}
        for name, blob in files
        if blob is not None
    ]


def _run_over(
    rows: Rows,
    decoded: DecodedEvent,
    fact: events.RunFailed | events.JobExpired | events.RunCancelled,
) -> None:
    run, work = _find_run(rows, decoded)
    if run is None or run.ended_at is not None:
        return
    rows.changed.add(run.id)
    run.ended_at, run.reason = decoded.event.envelope.at, fact.reason
    stages = _stages_text(fact) if isinstance(fact, events.RunFailed) else ""
    add_timeline_entry(work, decoded, f"{fact.reason}{stages}")


def _run_discarded(rows: Rows, decoded: DecodedEvent, fact: events.RunDiscarded) -> None:
    _, work = _find_run(rows, decoded)
    add_timeline_entry(
        work, decoded, f"the run ended after its lease: {fact.verdict or 'no verdict'}"
    )


def _finished(rows: Rows, decoded: DecodedEvent, end: SubmissionFinished) -> None:
    """End a submission; a second end, which the log would refuse, changes nothing."""
    submission = rows.submissions.get(decoded.id)
    if submission is None:
        return
    at, seq = decoded.event.envelope.at, decoded.event.seq
    if not submission.is_over:
        submission.move(FINISHED, at)
        submission.version, submission.finished_at = seq, at
        submission.outcome, submission.verdict = end.outcome, end.verdict
        submission.code, submission.reason = end.code, end.reason
        submission.is_eligible, submission.is_held = end.is_eligible, end.is_held
        if end.score_us is not None:
            add_result(rows, submission, submission.problem_number, end, (seq, at, ""))
    add_timeline_entry(submission, decoded, f"{end.outcome}: {end.reason}")


def add_result(
    rows: Rows,
    submission: Submission,
    problem_number: int,
    end: SubmissionFinished,
    since: tuple[int, datetime, str],
) -> None:
    """Store a result under a problem version; `since` is the event that made it count.

    Raises ValueError if it may count and a time in it has no logarithm: scores are pooled by those.
    """
    may_count = end.is_eligible or end.code in HELD_WITH_SCORE
    times_us = (end.score_us or 0.0, *end.process_us)
    if may_count and end.score_us is not None and min(times_us) <= 0:
        raise ValueError(f"{submission.id}: score_us and process_us must be above 0")
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
        source=submission.pooling_source,
        seq=seq,
        rejudge=rejudge,
        run=end.run,
        verdict=end.verdict,
        is_eligible=end.is_eligible and end.score_us is not None,
        code=end.code,
        reason=end.reason,
        score_us=end.score_us,
        placed_us=None if end.score_us is None else pool_results([end]).placed_us,
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
        yardstick_us=end.yardstick_us,
    )


def _yardstick_fixed(rows: Rows, _decoded: DecodedEvent, fact: events.YardstickFixed) -> None:
    """The scores are restated by statements; here their places are marked for update."""
    rows.touched.update(score.submission for score in fact.restated)


def _moderated(rows: Rows, decoded: DecodedEvent, fact: Fact) -> None:
    """The decision has a row of its own; here the submission's places are marked for update."""
    rows.touched.add(decoded.id)
    add_timeline_entry(
        rows.submissions.get(decoded.id),
        decoded,
        getattr(fact, "reason", "an appeal was filed"),
    )


def _ban_changed(rows: Rows, decoded: DecodedEvent, _fact: Fact) -> None:
    rows.banned.add(decoded.id)


def _merge_changed(
    rows: Rows, decoded: DecodedEvent, fact: events.AccountMerged | events.MergeUndone
) -> None:
    """The rows move by statements; here the places of both accounts are marked for update."""
    rows.merged |= {decoded.id, fact.into}


def _duel_judged(rows: Rows, decoded: DecodedEvent, _fact: Fact) -> None:
    rows.dueled.add(decoded.id)


def _rejudge_requested(rows: Rows, decoded: DecodedEvent, fact: events.RejudgeRequested) -> None:
    for item in fact.items:
        if fact.is_retime:
            add_timeline_entry(rows.submissions.get(item.submission), decoded, fact.reason)
        rows.items[decoded.id, item.submission] = Item(
            rejudge=decoded.id,
            submission=item.submission,
            to_number=fact.to_number,
            is_retime=fact.is_retime,
            account=item.account,
            gpu=item.gpu,
            state="waiting",
            state_at=decoded.event.envelope.at,
        )


def _rejudge_judged(rows: Rows, decoded: DecodedEvent, fact: events.RejudgeJudged) -> None:
    item = rows.items.get((decoded.id, fact.submission))
    if item is not None:
        item.result = msgspec.Raw(encode(fact.result))
        item.move("judged", decoded.event.envelope.at)


def _rejudge_applied(rows: Rows, decoded: DecodedEvent, fact: events.RejudgeApplied) -> None:
    apply_rejudge(rows, decoded.id, (decoded.event.seq, decoded.event.envelope.at))
    for (rejudge, submission), item in rows.items.items():
        if rejudge == decoded.id:
            text = f"rejudged under version {item.to_number}"
            add_timeline_entry(
                rows.submissions.get(submission), decoded, fact.reason if item.is_retime else text
            )


def _rejudge_discarded(rows: Rows, decoded: DecodedEvent, fact: events.RejudgeDiscarded) -> None:
    """Only the discarded attempts to time a run again are in its timeline."""
    for (rejudge, submission), item in rows.items.items():
        if rejudge == decoded.id and item.is_retime:
            add_timeline_entry(rows.submissions.get(submission), decoded, fact.reason)


def apply_rejudge(rows: Rows, rejudge: str, since: tuple[int, datetime]) -> Rows:
    """Let the drafts of a rejudge count, except those where the platform failed."""
    for item in list(rows.items.values()):
        submission = rows.submissions.get(item.submission)
        if item.rejudge != rejudge or item.state != "judged" or submission is None:
            continue
        end = msgspec.json.decode(item.result, type=SubmissionFinished)
        if end.outcome != "infra_failed":
            add_result(rows, submission, item.to_number, end, (*since, rejudge))
    return rows


@dataclass(frozen=True)
class LeaderboardRanks:
    """Accounts by rank on one leaderboard, and the submission that holds each entry."""

    ranks: Mapping[str, int]
    submissions: Mapping[str, str]

    def rank_of(self, account: str, submission: str) -> int | None:
        """The rank of a submission, None if its participant's entry is another one."""
        return self.ranks.get(account) if self.submissions.get(account) == submission else None


def preview_rejudge(
    items: Sequence[Row],
    before: Mapping[str, LeaderboardRanks],
    after: Mapping[str, LeaderboardRanks],
) -> dict[str, Any]:
    """The items with their old and new results, and who moves on which leaderboard.

    `before` and `after` are the leaderboards of the two versions, by GPU type.
    """
    diffs = [_diff_item(item, before[item["gpu"]], after[item["gpu"]]) for item in items]
    moves = [move for gpu in sorted(before) for move in _find_moves(gpu, before[gpu], after[gpu])]
    return {"items": diffs, "moves": moves, "changed_count": sum(item["changed"] for item in diffs)}


def _diff_item(item: Row, before: LeaderboardRanks, after: LeaderboardRanks) -> dict[str, Any]:
    account, submission = item["account"], item["submission"]
    old = _result_fields(item["old"], before.rank_of(account, submission))
    new = _result_fields(item["new"], after.rank_of(account, submission))
    watched = ("verdict", "is_eligible", "rank")
    return {
        "submission": submission,
        "number": item["number"],
        "participant_id": account,
        "gpu": item["gpu"],
        "old": old,
        "new": new,
        "changed": any(old[name] != new[name] for name in watched),
    }


def _result_fields(result: Row | None, rank: int | None) -> dict[str, Any]:
    fields: dict[str, Any] = {name: result.get(name) if result else None for name in SHOWN}
    return fields | {"rank": rank}


def _find_moves(
    gpu: str, before: LeaderboardRanks, after: LeaderboardRanks
) -> list[dict[str, Any]]:
    accounts = sorted({*before.ranks, *after.ranks})
    pairs = [(name, before.ranks.get(name), after.ranks.get(name)) for name in accounts]
    return [
        {"gpu": gpu, "participant_id": account, "old_rank": old, "new_rank": new}
        for account, old, new in pairs
        if old != new
    ]


# mypy checks that each function takes the class that it is listed with.
RULES: tuple[ChangeRule[Any], ...] = (
    ChangeRule(events.SubmissionReceived, _received),
    ChangeRule(events.SubmissionCancelRequested, _cancel_requested),
    ChangeRule(events.JobQueued, _job_queued),
    ChangeRule(events.JobLeased, _job_leased),
    ChangeRule(events.JobRequeued, _job_requeued),
    ChangeRule(
        events.JobFinished,
        lambda rows, decoded, fact: add_timeline_entry(
            rows.jobs.get(decoded.id), decoded, fact.verdict
        ),
    ),
    ChangeRule(events.JobGivenUp, _job_ended),
    ChangeRule(events.JobCancelled, _job_ended),
    ChangeRule(events.JobAssigned, _job_assigned),
    ChangeRule(events.RunStarted, _run_started),
    ChangeRule(events.RunCompleted, _run_completed),
    ChangeRule(events.RunFailed, _run_over),
    ChangeRule(events.JobExpired, _run_over),
    ChangeRule(events.RunCancelled, _run_over),
    ChangeRule(events.RunDiscarded, _run_discarded),
    ChangeRule(events.SubmissionFinished, _finished),
    ChangeRule(events.YardstickFixed, _yardstick_fixed),
    ChangeRule(events.DuelJudged, _duel_judged),
    ChangeRule(events.AccountBanned, _ban_changed),
    ChangeRule(events.AccountUnbanned, _ban_changed),
    ChangeRule(events.AccountMerged, _merge_changed),
    ChangeRule(events.MergeUndone, _merge_changed),
    ChangeRule(events.SubmissionHeld, _moderated),
    ChangeRule(events.SubmissionReleased, _moderated),
    ChangeRule(events.SubmissionDisqualified, _moderated),
    ChangeRule(events.SubmissionRestored, _moderated),
    ChangeRule(events.SubmissionWithdrawn, _moderated),
    ChangeRule(events.AppealFiled, _moderated),
    ChangeRule(events.AppealDecided, _moderated),
    ChangeRule(events.RejudgeRequested, _rejudge_requested),
    ChangeRule(events.RejudgeJudged, _rejudge_judged),
    ChangeRule(events.RejudgeApplied, _rejudge_applied),
    ChangeRule(events.RejudgeDiscarded, _rejudge_discarded),
)
