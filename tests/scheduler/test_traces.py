"""What a lease says of its job's wait, in the trace of its submission."""

from datetime import timedelta

from scheduler.domain.rules import decide
from scheduler.domain.state import split_decision
from scheduler.domain.traces import lease_spans
from shared.events import JobLeased
from shared.tracing import REQUEST, assignment_key
from tests.scheduler.histories import OFFER, T0, given_received, world

AT_NS = int(T0.timestamp()) * 10**9


def test_a_lease_is_a_wait_in_the_queue_and_an_assignment() -> None:
    history = given_received().enrol("a1")
    at = world(OFFER, now=T0 + timedelta(seconds=90))
    leases = [
        batch
        for decision in decide(history.state, at)
        for batch in split_decision(decision)
        if any(isinstance(append.fact, JobLeased) for append in batch)
    ]
    began_ns, ended_ns = AT_NS + 90 * 10**9, AT_NS + 91 * 10**9
    [queue, assign] = [
        span for batch in leases for span in lease_spans(history.state, batch, began_ns, ended_ns)
    ]
    lease = next(a.fact for batch in leases for a in batch if isinstance(a.fact, JobLeased))
    assert (queue.trace, queue.parent) == ("s1", REQUEST)
    assert (queue.began_ns, queue.ended_ns) == (AT_NS, began_ns)
    assert (assign.key, assign.parent) == (assignment_key(lease.run), queue.key)
    assert (assign.began_ns, assign.ended_ns) == (began_ns, ended_ns)
    assert queue.attributes["warpboard.attempt"] == 1
    assert assign.attributes["warpboard.agent"] == "a1"


def test_other_decisions_have_no_spans() -> None:
    history = given_received()
    for decision in decide(history.state, world()):
        for batch in split_decision(decision):
            assert list(lease_spans(history.state, batch, 0, 1)) == []
