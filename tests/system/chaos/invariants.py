"""What must hold of a log, whatever was killed; each check names every event that breaks it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TypeGuard

from ingest.submissions.admission import DEFAULT_LIMITS
from shared import events, subjects
from shared.events import CATALOGUE
from shared.subjects import job_id_of, last_token
from tests.system.chaos.crowd import Accepted
from tests.system.chaos.reading import Kept

# A decision that is due at the deadline is said a moment later.
GRACE = timedelta(seconds=120)
# They change nothing, so they expect nothing.
UNCHAINED = frozenset({"RunDiscarded", "AuditSealed", "ChunkStopRequested", "DeviceTimeSettled"})
RETURNING = frozenset({"infra_failed", "cancelled"})
# What may be said of a history that is over.
AFTERWARDS = frozenset({"RunDiscarded"})

Log = Sequence[Kept]
Ending = events.JobFinished | events.JobRequeued | events.SubmissionFinished
Check = Callable[[Log, Sequence[Accepted]], Iterator[str]]


def violations(log: Log, accepted: Sequence[Accepted]) -> dict[str, list[str]]:
    """Every invariant by its name, with what breaks it: nothing, one hopes."""
    return {name: list(check(log, accepted)) for name, check in CHECKS.items()}


def _no_hole(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    for place, event in enumerate(log, 1):
        if event.seq != place:
            yield f"at place {place} lies event {event.seq}"
            return


def _accepted_is_kept(log: Log, accepted: Sequence[Accepted]) -> Iterator[str]:
    for one in accepted:
        event = log[one.number - 1] if one.number <= len(log) else None
        if event is None or event.type != "SubmissionReceived" or _id(event) != one.id:
            yield f"submission {one.number} ({one.id}) was promised and is not there"


def _one_submission_a_key(log: Log, accepted: Sequence[Accepted]) -> Iterator[str]:
    numbers = Counter(one.number for one in accepted)
    yield from (f"{number} was promised for {n} keys" for number, n in numbers.items() if n > 1)
    received = Counter(_id(event) for event in _of(log, "SubmissionReceived"))
    yield from (f"submission {one} was received {n} times" for one, n in received.items() if n > 1)


def _each_ended_once(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    """Submissions, jobs and runs alike, and after their end nothing but notes.

    The job of a submission ends with the verdict of the run that its newest lease names.
    """
    verdicts = {_id(event): event for event in _of(log, "RunCompleted")}
    for aggregate, history in _histories(log).items():
        if aggregate.partition(".")[0] not in ("submission", "job", "run"):
            continue
        ends = [event for event in history if CATALOGUE[event.type].is_terminal]
        if _is_of_submission(history[0]):
            facts = (event.recorded.fact for event in history)
            runs = [fact.run for fact in facts if isinstance(fact, events.JobLeased)]
            ends += [verdicts[run] for run in runs[-1:] if run in verdicts]
        if len(ends) != 1:
            yield f"{aggregate} has {len(ends)} ends: {[event.type for event in history]}"
            continue
        late = [e for e in history if e.seq > ends[0].seq and e.type not in AFTERWARDS]
        yield from (f"{aggregate} went on after its end with {e.type} at {e.seq}" for e in late)


def _is_of_submission(event: Kept) -> bool:
    """Whether it lies on the one job of a submission, not on that of a rejudge or a canary."""
    return event.aggregate == subjects.job(job_id_of(event.recorded.envelope.corr))


def _none_overdue(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    ends = {e.aggregate: e for e in _of(log, "SubmissionFinished")}
    for event in _of(log, "SubmissionReceived"):
        end, fact = ends.get(event.aggregate), event.recorded.fact
        assert isinstance(fact, events.SubmissionReceived)
        if end is not None and end.recorded.envelope.at > fact.deadline_at + GRACE:
            ended_at = end.recorded.envelope.at
            yield f"{event.aggregate} ended at {ended_at}, due at {fact.deadline_at}"


def _histories_unbroken(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    """Each event expected the one before it; in a batch of several the first speaks for all."""
    versions: dict[str, int] = {}
    for event in log:
        before = versions.get(event.aggregate, 0)
        if event.expected is None:
            is_batch = before == event.seq - 1
            if event.type not in UNCHAINED and not is_batch:
                yield f"{event.type} at {event.seq} expected nothing"
        elif event.expected != before:
            yield f"{event.type} at {event.seq} expected {event.expected}, not {before}"
        versions[event.aggregate] = event.seq


def _leases_apart(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    """Of one job, a lease begins after the end of the one before, if that ever had its order."""
    ended: set[str] = set()
    held: dict[str, str] = {}
    orders: dict[str, str] = {}
    for event in log:
        fact = event.recorded.fact
        if isinstance(fact, events.JobLeased):
            before = held.get(event.aggregate)
            if before is not None and before not in ended:
                yield f"{event.aggregate} was leased at {event.seq} while {before} still ran"
            held[event.aggregate] = fact.run
        elif isinstance(fact, events.JobAssigned):
            orders[_id(event)] = fact.job
        elif isinstance(fact, events.JobRequeued) and orders.get(fact.run) != _id(event):
            # Two schedulers gave one agent's run to two jobs; the order says whose it is.
            held.pop(event.aggregate, None)
        elif event.aggregate.startswith("run.") and fact.is_terminal:
            ended.add(_id(event))


def _leased_results_count(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    """What ends a job or a submission completed while its job's newest lease named it."""
    leased: dict[str, str] = {}
    jobs: dict[str, str] = {}
    valid: set[str | None] = set()
    for event in log:
        fact, one = event.recorded.fact, _id(event)
        if isinstance(fact, events.JobLeased):
            leased[one] = fact.run
        elif isinstance(fact, events.JobAssigned):
            jobs[one] = fact.job
        elif isinstance(fact, events.RunCompleted):
            valid |= {one} if leased.get(jobs[one]) == one else set()
        elif _has_verdict(fact) and fact.run not in valid:
            name = event.aggregate
            yield f"{name} ended by run {fact.run}, which no lease named when it completed"


def _has_verdict(fact: events.Fact) -> TypeGuard[Ending]:
    if isinstance(fact, events.SubmissionFinished):
        return fact.verdict is not None
    if isinstance(fact, events.JobRequeued):
        return fact.result is not None
    return isinstance(fact, events.JobFinished)


def _each_item_ended_once(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    """With a verdict that was known, one of a run, or none; and then the evaluation, once."""
    ends, finished = defaultdict[str, Counter[int]](Counter), Counter[str]()
    for event in log:
        fact = event.recorded.fact
        if isinstance(fact, events.EvaluationFinished):
            finished[_id(event)] += 1
        elif isinstance(fact, events.JobRequeued | events.JobFinished) and fact.result is not None:
            first, count = fact.result.first, len(fact.result.verdicts)
            ends[fact.result.evaluation].update(range(first, first + count))
        elif isinstance(fact, events.JobGivenUp | events.JobCancelled) and fact.chunk is not None:
            first, count = fact.chunk.first, fact.chunk.count
            ends[fact.chunk.evaluation].update(range(first, first + count))
    for event in _of(log, "EvaluationRequested"):
        fact, one = event.recorded.fact, _id(event)
        assert isinstance(fact, events.EvaluationRequested)
        run_count = len(fact.sources) - len(fact.cached)
        if finished[one] != 1:
            yield f"evaluation {one} has {finished[one]} ends"
        wrong = {item: ends[one][item] for item in range(run_count) if ends[one][item] != 1}
        if wrong or ends[one].total() != run_count:
            yield f"evaluation {one} of {run_count} items: ends that are not one: {wrong}"


def _evaluations_count_their_items(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    """The end of an evaluation counts each item, and device time is settled with it."""
    sizes, reserved, settled = dict[str, int](), Counter[str](), Counter[str]()
    for event in log:
        fact = event.recorded.fact
        if isinstance(fact, events.EvaluationRequested):
            sizes[_id(event)] = len(fact.sources)
        elif isinstance(fact, events.DeviceTimeReserved):
            reserved[fact.evaluation] += 1
        elif isinstance(fact, events.DeviceTimeSettled):
            settled[fact.evaluation] += 1
        elif isinstance(fact, events.EvaluationFinished):
            counted = fact.completed + fact.failed + fact.cancelled
            if counted != sizes[_id(event)]:
                yield f"evaluation {_id(event)} of {sizes[_id(event)]} items counted {counted}"
    expected = Counter(dict.fromkeys(sizes, 1))
    if (reserved, settled) != (expected, expected):
        yield f"device time: {reserved - expected} reserved and {settled - expected} settled anew"
        yield f"device time: {expected - reserved} not reserved, {expected - settled} not settled"


def _quotas_add_up(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    """Taken in the submission's own batch; given back once where its end says so, else never."""
    taken = _quota(log, "QuotaTaken")
    returned = _quota(log, "QuotaReturned")
    ends = {_id(e): _outcome(e) for e in _of(log, "SubmissionFinished")}
    for event in _of(log, "SubmissionReceived"):
        fact, one = event.recorded.fact, _id(event)
        assert isinstance(fact, events.SubmissionReceived)
        wanted = [(fact.account, fact.bucket, fact.cost)] if fact.bucket else []
        if taken.pop(one, []) != wanted:
            yield f"submission {one} says {wanted}, and its quota does not"
        owed = wanted if ends.get(one) in RETURNING else []
        if (given := returned.pop(one, [])) != owed:
            yield f"submission {one} ended {ends.get(one)}: given back {given}, owed {owed}"
    yield from (f"quota moved for {one}, which was never received" for one in {**taken, **returned})


def _open_within_the_limit(log: Log, _accepted: Sequence[Accepted]) -> Iterator[str]:
    """Of one participant; baselines and what an operator submits again are not limited."""
    open_count, accounts = Counter[str](), dict[str, str]()
    for event in log:
        fact = event.recorded.fact
        if isinstance(fact, events.SubmissionReceived):
            if fact.baseline or fact.via == events.VIA_OPERATOR:
                continue
            accounts[event.aggregate] = fact.account
            open_count[fact.account] += 1
            if open_count[fact.account] > DEFAULT_LIMITS.open_max:
                yield f"{fact.account} has {open_count[fact.account]} open at {event.seq}"
        elif fact.is_terminal and event.aggregate in accounts:
            open_count[accounts[event.aggregate]] -= 1


def _quota(log: Log, type_: str) -> dict[str, list[tuple[str, str, int]]]:
    found: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for event in _of(log, type_):
        fact = event.recorded.fact
        assert isinstance(fact, events.QuotaTaken | events.QuotaReturned)
        found[fact.submission].append((_id(event), fact.bucket, fact.cost))
    return found


def _outcome(event: Kept) -> str:
    fact = event.recorded.fact
    assert isinstance(fact, events.SubmissionFinished)
    return fact.outcome


def _of(log: Log, *types: str) -> Iterator[Kept]:
    return (event for event in log if event.type in types)


def _histories(log: Log) -> dict[str, list[Kept]]:
    found: dict[str, list[Kept]] = defaultdict(list)
    for event in log:
        found[event.aggregate].append(event)
    return found


def _id(event: Kept) -> str:
    return last_token(event.aggregate)


CHECKS: dict[str, Check] = {
    "the log has no hole": _no_hole,
    "every accepted submission is in it": _accepted_is_kept,
    "one submission for each key": _one_submission_a_key,
    "submissions, jobs and runs end once": _each_ended_once,
    "no submission was overdue": _none_overdue,
    "every history is unbroken": _histories_unbroken,
    "leases of a job do not overlap": _leases_apart,
    "only leased results count": _leased_results_count,
    "each item of an evaluation ends once": _each_item_ended_once,
    "evaluations count their items": _evaluations_count_their_items,
    "quotas add up": _quotas_add_up,
    "nobody has too many open": _open_within_the_limit,
}
