"""Events as bytes, and back in their newest version."""

from datetime import UTC, datetime

import msgspec
import pytest

from shared.events import CATALOGUE, Fact, JobRequeued
from shared.testing import example
from shared.wire import EVENT_BYTES_MAX, Stamp, UnknownEvent, decode, encode, fact_of, pack, seal

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
STAMP = Stamp("id-1", AT, "service:test", "s1", "cause-1")
FACT = JobRequeued(run="r1", reason="lost", avoid_agents=["a1"])


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.__name__)
def test_every_fact_survives_its_way_over_the_wire(kind: type[Fact]) -> None:
    fact = example(kind)
    envelope = decode(pack(seal(fact, "any.id", STAMP)))
    assert (envelope.type, envelope.v) == (kind.__name__, kind.version)
    assert fact_of(envelope) == fact


def test_an_envelope_says_who_when_and_why() -> None:
    said = msgspec.json.decode(pack(seal(FACT, "job.j1", STAMP)))
    assert said | {"trace": None, "sig": None} == {
        "id": "id-1",
        "type": "JobRequeued",
        "v": 1,
        "at": "2026-01-02T03:04:05.678901Z",
        "agg": "job.j1",
        "actor": "service:test",
        "corr": "s1",
        "cause": "cause-1",
        "data": {"run": "r1", "reason": "lost", "avoid_agents": ["a1"]},
        "trace": None,
        "sig": None,
    }


def test_fields_that_a_newer_writer_added_are_ignored() -> None:
    said = msgspec.json.decode(pack(seal(FACT, "job.j1", STAMP)))
    said["mood"] = "fine"
    said["data"]["weather"] = "wet"
    assert fact_of(decode(encode(said))) == FACT


@pytest.mark.parametrize("change", [{"type": "JobEaten"}, {"v": 2}])
def test_an_event_from_the_future_says_update_first(change: dict[str, object]) -> None:
    said = msgspec.json.decode(pack(seal(FACT, "job.j1", STAMP))) | change
    with pytest.raises(UnknownEvent, match="update this service first"):
        fact_of(decode(encode(said)))


def test_an_event_too_large_is_refused_with_its_size() -> None:
    large = JobRequeued(run="r1", reason="x" * EVENT_BYTES_MAX)
    with pytest.raises(ValueError, match="name a blob in it"):
        pack(seal(large, "job.j1", STAMP))
