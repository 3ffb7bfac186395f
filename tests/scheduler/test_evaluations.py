"""Evaluations: every item ends exactly once, and no person waits for more than one of them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs
from nacl.signing import SigningKey

from harness.vocabulary import EVALUATION_LEVEL_MIN
from scheduler.domain.fold import evolve
from scheduler.domain.rules import IDLE, decide
from scheduler.domain.state import World
from shared import events, subjects
from shared.evaluations import JSON_LINES, RESULTS_NAME
from shared.event_log import RecordedEvent
from shared.events import Artefact, Blob, CachedVerdict, Chunk, ChunkVerdicts, Requires
from shared.signing import public_key, sign_verdict
from shared.wire import EventMetadata, make_envelope
from tests.scheduler.histories import (
    T0,
    History,
    completed,
    failed,
    offering,
    received,
    started,
    world,
)
from tests.support.writers import written

KEY = SigningKey(bytes(32))
BATCH = subjects.evaluation("e1")
RESULTS = Blob(digest="e" * 64, bytes=1)
CACHED = CachedVerdict(verdict="passed", results=RESULTS, line=0)
ENDS = (events.JobFinished, events.JobGivenUp, events.JobCancelled, events.JobRequeued)


def requested(count: int = 8, chunk_items: int = 8, **other: Any) -> events.EvaluationRequested:
    batch = events.EvaluationRequested(
        account="ada",
        token="t1",
        problem="identity",
        problem_number=1,
        problem_digest="d",
        gpu="CPU",
        mode="test",
        source=Blob(digest="x", bytes=1),
        sources=[f"digest {place}" for place in range(count)],
        chunk_items=chunk_items,
        item_s_max=10.0,
        deadline_at=T0 + timedelta(hours=1),
        request_hash="",
    )
    return structs.replace(batch, **other)


class Platform(History):
    """A history with agents that are enrolled with a key of their own."""

    def enrol(self, *agents: str) -> "Platform":
        for name in agents:
            if not self.state.agent(name).is_enrolled:
                enrolled = events.AgentEnrolled(sign_key=public_key(KEY), owner="test")
                self.say(subjects.agent(name), enrolled)
        return self

    def order(self) -> tuple[str, events.JobAssigned]:
        aggregate, order = self.of_type("JobAssigned")[-1]
        assert isinstance(order, events.JobAssigned)
        return aggregate, order

    def begin(self) -> "Platform":
        self.say(self.order()[0], started())
        return self

    def complete(
        self, count: int | None = None, *, key: SigningKey = KEY, first: int | None = None
    ) -> "Platform":
        """End the newest run with verdicts for so many items of its chunk, by default all."""
        aggregate, order = self.order()
        chunk, token = order.chunk, self.versions_of_order(aggregate)
        assert chunk is not None
        verdicts = ["passed"] * (chunk.count if count is None else count)
        fact = structs.replace(
            completed(),
            chunk=ChunkVerdicts(first=chunk.first if first is None else first, verdicts=verdicts),
            artefacts=[Artefact(name=RESULTS_NAME, media=JSON_LINES, blob=RESULTS)],
        )
        report, actor = written(aggregate, fact)
        self.seq += 1
        envelope = make_envelope(fact, report, EventMetadata(str(self.seq), self.at, actor, "", ""))
        sig = sign_verdict(key, aggregate, token, bytes(envelope.data))
        event = RecordedEvent(self.seq, structs.replace(envelope, sig=sig))
        self.state = evolve(self.state, event)
        self.facts.append((aggregate, fact))
        self.versions[aggregate] = self.seq
        return self

    def versions_of_order(self, aggregate: str) -> int:
        return self.state.runs[subjects.last_token(aggregate)].token

    def ended_items(self) -> list[int]:
        """Return the items that ended, in the order of their ends."""
        items: list[int] = []
        for _, fact in self.facts:
            result = getattr(fact, "result", None)
            if isinstance(result, events.ChunkResult):
                items += range(result.first, result.first + len(result.verdicts))
            elif isinstance(fact, events.JobGivenUp | events.JobCancelled) and fact.chunk:
                items += range(fact.chunk.first, fact.chunk.first + fact.chunk.count)
        return items


def given(batch: events.EvaluationRequested, *agents: str) -> Platform:
    history = Platform()
    history.say(BATCH, batch)
    history.settle(alive(*(agents or ("a1",))))
    return history


def alive(*agents: str, minutes: float = 0.0) -> World:
    return world(*map(offering, agents), now=T0 + timedelta(minutes=minutes))


def test_the_end_of_the_last_chunk_makes_the_end_of_its_batch_due_at_once() -> None:
    history = given(requested(1, 32)).begin().complete()
    (finishing,) = decide(history.state, alive("a1"))
    (last_event,) = history.append_decision(finishing)
    (ending,) = decide(history.state, alive("a1"))
    assert history.append_decision(ending)[0] == "EvaluationFinished"
    assert last_event not in IDLE


def test_a_batch_of_one_chunk_needs_nine_events_for_32_items() -> None:
    history = given(requested(32, 32)).begin().complete()
    history.settle(alive("a1"))
    kinds = [type(fact).__name__ for _, fact in history.facts]
    of_batch = [kind for kind in kinds if not kind.startswith("Agent")]
    assert of_batch == [
        *("EvaluationRequested", "JobLeased", "JobAssigned", "RunStarted", "RunCompleted"),
        *("JobFinished", "EvaluationFinished", "DeviceTimeSettled"),
    ]
    # The ninth is DeviceTimeReserved, which ingest stores with the request.
    assert (len(of_batch) + 1) / 32 <= 0.5
    assert history.ended_items() == list(range(32))


def test_an_order_names_the_items_of_its_chunk_and_the_sources_of_all() -> None:
    history = given(requested(5, 2), "a1", "a2", "a3")
    orders = [fact for _, fact in history.of_type("JobAssigned")]
    chunks = [getattr(order, "chunk", None) for order in orders]
    assert sorted((chunk.first, chunk.count) for chunk in chunks if chunk) == [
        (0, 2),
        (2, 2),
        (4, 1),
    ]
    assert {getattr(order, "source", None) for order in orders} == {Blob(digest="x", bytes=1)}
    assert {getattr(order, "class_", None) for order in orders} == {"evaluation"}


def test_cached_items_do_not_run() -> None:
    history = given(requested(3, 8, cached=[CACHED])).begin().complete()
    history.settle(alive("a1"))
    assert history.ended_items() == [0, 1]
    (_, end), *_ = history.of_type("EvaluationFinished")
    assert (getattr(end, "completed", 0), getattr(end, "failed", 0)) == (3, 0)


def test_a_batch_of_cached_items_ends_at_once() -> None:
    history = given(requested(2, 8, cached=[CACHED, CACHED]))
    assert history.of_type("JobLeased") == []
    assert len(history.of_type("EvaluationFinished")) == 1
    assert history.state.evaluations == {}


def test_a_person_waits_for_one_item_at_most() -> None:
    history = given(requested(8)).begin()
    assert history.say(subjects.submission("s1"), received()).settle(alive("a1")) == [
        "ChunkStopRequested"
    ]
    aggregate, stop = history.of_type("ChunkStopRequested")[0]
    assert (aggregate, getattr(stop, "run", "")) == (
        subjects.stop("a1"),
        subjects.last_token(history.order()[0]),
    )
    assert history.settle(alive("a1")) == [], "it is asked once"
    history.complete(3).settle(alive("a1"))
    assert history.order()[1].submission == "s1"
    history.begin().say(history.run_agg(), completed())
    history.say(subjects.submission("s1"), ranked())
    history.settle(alive("a1"))
    assert history.order()[1].chunk == Chunk(evaluation="e1", first=3, count=5)
    history.begin().complete().settle(alive("a1"))
    assert history.ended_items() == list(range(8))


def ranked() -> events.SubmissionFinished:
    return events.SubmissionFinished(
        outcome="passed", is_eligible=True, code="ranked", reason="", verdict="passed"
    )


def test_no_chunk_is_stopped_for_a_person_whom_a_free_agent_serves() -> None:
    history = given(requested(8)).begin()
    history.say(subjects.submission("s1"), received())
    assert "ChunkStopRequested" not in history.settle(alive("a1", "a2"))


def test_no_chunk_is_stopped_for_what_its_agent_cannot_run() -> None:
    history = given(requested(8)).begin()
    needs = Requires(toolchains=["nvcc"])
    history.say(subjects.submission("s1"), received(requires=needs))
    assert history.settle(alive("a1")) == []


def test_a_chunk_waits_for_an_agent_that_isolates_as_its_evaluation_requires() -> None:
    history = Platform()
    history.say(BATCH, requested(requires=Requires(level=EVALUATION_LEVEL_MIN)))
    history.settle(world(offering("a1", level="weak")))
    assert not history.of_type("JobLeased")
    history.settle(world(offering("a1", level="weak"), offering("a2", level="medium")))
    assert [getattr(fact, "agent", "") for _, fact in history.of_type("JobLeased")] == ["a2"]


def test_as_many_chunks_are_stopped_as_people_wait() -> None:
    history = given(requested(16, 4), "a1", "a2", "a3")
    for aggregate, _ in history.of_type("JobAssigned"):
        history.say(aggregate, started())
    for number in (1, 2):
        history.say(subjects.submission(f"s{number}"), received())
    stopped = history.settle(alive("a1", "a2", "a3"))
    assert stopped == ["ChunkStopRequested"] * 2


def test_chunks_leave_a_host_to_a_gang_that_waits() -> None:
    history = given(requested(16, 4), "a1", "a2")
    hosts = world(offering("a1", host="h"), offering("a2", host="h"))
    for aggregate, _ in history.of_type("JobAssigned"):
        history.say(aggregate, started())
    history.say(subjects.submission("s1"), received(requires=Requires(count=2)))
    assert history.settle(hosts).count("ChunkStopRequested") == 2
    history.complete(1).settle(hosts)
    assert len(history.of_type("JobLeased")) == 2, "the first free agent gets no other chunk"


def test_the_items_of_a_chunk_whose_agent_died_run_again() -> None:
    history = given(requested(8)).begin()
    appended = history.settle(alive("a2"))
    assert appended[1:] == ["JobExpired", "JobRequeued", "JobLeased", "JobAssigned"]
    assert history.order()[1].chunk == Chunk(evaluation="e1", first=0, count=8)
    history.begin().complete().settle(alive("a2"))
    assert history.ended_items() == list(range(8))


def test_only_the_item_that_kills_agents_is_given_up() -> None:
    history, killer, agents = given(requested(8)), 5, 1
    for _ in range(40):
        if "e1" not in history.state.evaluations:
            break
        chunk = history.begin().order()[1].chunk
        assert chunk is not None
        if chunk.first <= killer < chunk.first + chunk.count:
            agents += 1  # The one that ran it is dead.
        else:
            history.complete()
        history.settle(alive(f"a{agents}"))
    assert sorted(history.ended_items()) == list(range(8))
    given_up = [fact for _, fact in history.of_type("JobGivenUp")]
    assert [getattr(fact, "code", "") for fact in given_up] == ["agents_lost"]
    assert [getattr(fact, "chunk", None) for fact in given_up] == [
        Chunk(evaluation="e1", first=killer, count=1)
    ]
    assert agents <= 7, "each loss halves what may be its cause"


def test_an_agent_that_fails_at_an_item_twice_leaves_the_others_to_another_job() -> None:
    history = given(requested(8)).begin()
    for _ in range(2):
        history.say(history.run_agg(), failed("supervisor", has_passed_self_test=True))
        history.settle(alive("a1"))
        history.begin()
    assert history.order()[1].chunk == Chunk(evaluation="e1", first=0, count=1)


def test_verdicts_count_only_with_the_signature_of_the_agent() -> None:
    history = given(requested(8)).begin().complete(key=SigningKey(bytes([1]) * 32))
    assert history.settle(alive("a1")) == ["JobRequeued", "JobLeased", "JobAssigned"]
    assert history.ended_items() == []


@pytest.mark.parametrize(("count", "first"), [(0, 0), (9, 0), (3, 4)])
def test_verdicts_that_do_not_fit_the_order_do_not_count(count: int, first: int) -> None:
    history = given(requested(8)).begin().complete(count, first=first)
    assert history.settle(alive("a1")) == ["JobRequeued", "JobLeased", "JobAssigned"]
    assert history.ended_items() == []


def test_a_chunk_that_hangs_is_taken_from_its_agent() -> None:
    history = given(requested(8)).begin()
    # Eight items of ten seconds at most, and a minute to start.
    assert history.settle(alive("a1", minutes=2)) == []
    assert "JobExpired" in history.settle(alive("a1", minutes=2.4))
    assert getattr(history.of_type("JobExpired")[0][1], "code", "") == "chunk_overdue"


def test_a_cancelled_batch_keeps_the_verdicts_that_it_has() -> None:
    history = given(requested(8, 4)).begin().complete()
    history.settle(alive("a1"))
    history.begin()
    history.say(BATCH, events.EvaluationCancelRequested(reason="enough"))
    assert history.settle(alive("a1")) == [
        *("JobCancelled", "RunCancelled", "EvaluationFinished", "DeviceTimeSettled")
    ]
    assert sorted(history.ended_items()) == list(range(8))
    (_, end), *_ = history.of_type("EvaluationFinished")
    assert (getattr(end, "outcome", ""), getattr(end, "completed", 0)) == ("cancelled", 4)
    assert getattr(end, "cancelled", 0) == 4


def test_items_that_nobody_took_end_at_the_deadline() -> None:
    history = Platform()
    history.say(BATCH, requested(8))
    appended = history.settle(World(T0 + timedelta(hours=2)))
    assert appended == ["JobGivenUp", "EvaluationFinished", "DeviceTimeSettled"]
    assert history.ended_items() == list(range(8))


def test_evaluations_come_after_people_and_before_rejudges() -> None:
    history = Platform()
    history.say(BATCH, requested(8))
    history.say(subjects.submission("s1"), received("bob"))
    history.settle(alive("a1"))
    assert history.order()[1].submission == "s1"


def test_evaluations_do_not_cost_their_owner_the_next_turn() -> None:
    history = given(requested(8)).begin().complete()
    history.at = T0 + timedelta(minutes=9)
    history.settle(alive("a1", minutes=9))
    assert "ada" not in history.state.pools["CPU"].used_s


def test_device_time_is_what_its_runs_held() -> None:
    history = given(requested(8, 4)).begin()
    history.at = T0 + timedelta(seconds=30)
    history.complete()
    history.settle(replace(alive("a1"), now=history.at))
    history.begin()
    history.at += timedelta(seconds=10)
    history.complete()
    history.settle(replace(alive("a1"), now=history.at))
    (_, settled), *_ = history.of_type("DeviceTimeSettled")
    assert settled == events.DeviceTimeSettled(evaluation="e1", device_s=40.0)


def test_a_chunk_needs_an_agent_that_signs() -> None:
    history = History()
    history.say(BATCH, requested(8))
    unknown = world(offering("a1"))
    history.say(subjects.agent("a1"), events.AgentRevoked(reason="gone"))
    assert "JobLeased" not in history.settle(unknown)
