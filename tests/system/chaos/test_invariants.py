"""The judge of a log finds what it is there to find."""

from datetime import timedelta

from msgspec.structs import replace

from ingest.submissions.admission import DEFAULT_LIMITS
from shared import events, subjects
from shared.clock import now
from shared.event_log import RecordedEvent
from shared.events import Blob, ChunkResult, Fact
from shared.subjects import job_id_of
from shared.wire import EventMetadata, make_envelope
from tests.support.examples import example_event
from tests.system.chaos.crowd import Accepted
from tests.system.chaos.invariants import violations
from tests.system.chaos.reading import Kept

AT = now()
SUBMISSION, ACCOUNT = "s1", "a1"
JOB = job_id_of(SUBMISSION)
LEASES, COUNTS, ENDS = (
    "leases of a job do not overlap",
    "only leased results count",
    "submissions, jobs and runs end once",
)
QUOTAS, PROMISES = "quotas add up", "every accepted submission is in it"
OPEN = "nobody has too many open"
EVALUATION = "e1"
ITEMS, COUNTED = "each item of an evaluation ends once", "evaluations count their items"

Told = tuple[str, Fact]


def _received() -> Told:
    fact = replace(
        example_event(events.SubmissionReceived),
        account=ACCOUNT,
        bucket="b",
        cost=1,
        deadline_at=AT + timedelta(hours=1),
    )
    return subjects.submission(SUBMISSION), fact


def _taken() -> Told:
    fact = replace(example_event(events.QuotaTaken), submission=SUBMISSION, bucket="b", cost=1)
    return subjects.quota(ACCOUNT), fact


def _returned() -> Told:
    fact = replace(example_event(events.QuotaReturned), submission=SUBMISSION, bucket="b", cost=1)
    return subjects.quota(ACCOUNT), fact


def _lease(run: str) -> list[Told]:
    leased = replace(example_event(events.JobLeased), run=run)
    assigned = replace(example_event(events.JobAssigned), job=JOB)
    return [(subjects.job(JOB), leased), (subjects.run("agent", run), assigned)]


def _completed(run: str) -> Told:
    return subjects.run("agent", run), example_event(events.RunCompleted)


def _expired(run: str) -> Told:
    return subjects.run("agent", run), example_event(events.JobExpired)


def _finished(run: str) -> Told:
    return subjects.job(JOB), replace(example_event(events.JobFinished), run=run)


def _ended(outcome: str, run: str | None) -> Told:
    fact = replace(
        example_event(events.SubmissionFinished),
        outcome=outcome,
        run=run,
        verdict="passed" if run else None,
    )
    return subjects.submission(SUBMISSION), fact


def _log(told: list[Told]) -> list[Kept]:
    """Facts as a log that never conflicted."""
    log: list[Kept] = []
    versions: dict[str, int] = {}
    for seq, (aggregate, fact) in enumerate(told, 1):
        stamp = EventMetadata(f"e{seq}", AT, "service:test", SUBMISSION, "test")
        log.append(
            Kept(
                RecordedEvent(seq, make_envelope(fact, aggregate, stamp)),
                versions.get(aggregate, 0),
            )
        )
        versions[aggregate] = seq
    return log


def _broken(told: list[Told]) -> set[str]:
    return {name for name, found in violations(_log(told), []).items() if found}


BEGUN = [_taken(), _received(), *_lease("r1")]
HONEST = [*BEGUN, _completed("r1"), _ended("passed", "r1")]
AGAIN = [*BEGUN, _expired("r1"), *_lease("r2")]


def test_an_honest_log_breaks_nothing() -> None:
    assert _broken(HONEST) == set()
    assert _broken([*AGAIN, _completed("r2"), _ended("passed", "r2")]) == set()


def test_a_second_lease_beside_a_first_is_found() -> None:
    assert LEASES in _broken([*BEGUN, *_lease("r2")])


def test_a_result_that_no_lease_names_is_found() -> None:
    assert COUNTS in _broken([*AGAIN, _completed("r1"), _ended("passed", "r1")])
    assert COUNTS in _broken([*AGAIN, _finished("r2")])


def test_what_has_no_end_or_two_is_found() -> None:
    assert ENDS in _broken(HONEST[:-1])
    assert ENDS in _broken([*HONEST, HONEST[-1]])
    assert ENDS in _broken([*HONEST, _finished("r1")])
    assert ENDS in _broken([*BEGUN, _expired("r1"), _ended("infra_failed", None)])


def test_a_promise_that_is_not_kept_is_found() -> None:
    kept, lost = Accepted(2, SUBMISSION, "k"), Accepted(3, SUBMISSION, "k")
    assert not violations(_log(HONEST), [kept])[PROMISES]
    assert violations(_log(HONEST), [lost])[PROMISES]


def test_quota_that_is_owed_or_given_twice_is_found() -> None:
    failed = [*BEGUN, _expired("r1"), _ended("infra_failed", None)]
    assert QUOTAS in _broken(failed)
    assert QUOTAS not in _broken([*failed, _returned()])
    assert QUOTAS in _broken([*failed, _returned(), _returned()])
    assert QUOTAS in _broken([*HONEST, _returned()])
    assert QUOTAS in _broken(HONEST[1:])


def test_an_event_that_expected_another_version_is_found() -> None:
    log = _log(HONEST)
    torn = [*log[:-1], log[-1]._replace(expected=log[-1].seq - 1)]
    assert violations(torn, [])["every history is unbroken"]


def test_one_open_submission_too_many_is_found() -> None:
    aggregate, received = _received()
    fact = replace(received, baseline="")
    opened = [(f"{aggregate}-{number}", fact) for number in range(DEFAULT_LIMITS.open_max)]
    assert OPEN not in _broken(opened)
    assert OPEN in _broken([*opened, (aggregate, fact)])
    ended = (opened[0][0], example_event(events.SubmissionFinished))
    assert OPEN not in _broken([*opened, ended, (aggregate, fact)])


def _requested(count: int) -> list[Told]:
    fact = replace(example_event(events.EvaluationRequested), sources=["0" * 64] * count, cached=[])
    reserved = replace(example_event(events.DeviceTimeReserved), evaluation=EVALUATION)
    return [(subjects.evaluation(EVALUATION), fact), (subjects.budget(ACCOUNT), reserved)]


def _chunk_ended(first: int, count: int) -> Told:
    result = ChunkResult(
        evaluation=EVALUATION,
        first=first,
        verdicts=["passed"] * count,
        results=Blob(digest="0" * 64, bytes=1, media="application/jsonl"),
        harness="",
        device_s=1.0,
    )
    fact = replace(example_event(events.JobFinished), run=f"r{first}", result=result)
    return subjects.job(f"chunk-{first}"), fact


def _evaluation_ended(count: int) -> list[Told]:
    fact = replace(example_event(events.EvaluationFinished), completed=count, failed=0, cancelled=0)
    settled = replace(example_event(events.DeviceTimeSettled), evaluation=EVALUATION)
    return [(subjects.evaluation(EVALUATION), fact), (subjects.budget(ACCOUNT), settled)]


def test_an_item_that_is_lost_or_ends_twice_is_found() -> None:
    begun, ended = _requested(4), _evaluation_ended(4)
    whole = [*begun, _chunk_ended(0, 2), _chunk_ended(2, 2), *ended]
    assert _broken(whole).isdisjoint({ITEMS, COUNTED})
    assert ITEMS in _broken([*begun, _chunk_ended(0, 2), *ended])
    assert ITEMS in _broken([*begun, _chunk_ended(0, 2), _chunk_ended(1, 3), *ended])
    assert ITEMS in _broken([*begun, _chunk_ended(0, 2), _chunk_ended(2, 3), *ended])
    assert ITEMS in _broken(whole[:-2])
    assert ITEMS in _broken([*whole, ended[0]])
    assert COUNTED in _broken([*whole[:-2], *_evaluation_ended(3)])
    assert COUNTED in _broken([*whole, ended[1]])
    assert COUNTED in _broken(whole[:-1])
