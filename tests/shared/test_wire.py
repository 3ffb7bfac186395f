"""Events as bytes, and decoded in their newest version."""

from datetime import UTC, datetime

import msgspec
import pytest

from shared.events import CATALOGUE, Fact, JobRequeued
from shared.wire import (
    EVENT_BYTES_MAX,
    EventMetadata,
    UnknownEvent,
    decode,
    decode_fact,
    encode,
    encode_envelope,
    make_envelope,
)
from tests.support.examples import example_event

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
STAMP = EventMetadata("id-1", AT, "service:test", "s1", "cause-1")
FACT = JobRequeued(run="r1", reason="lost", avoid_agents=["a1"])


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.__name__)
def test_every_fact_survives_its_way_over_the_wire(kind: type[Fact]) -> None:
    fact = example_event(kind)
    envelope = decode(encode_envelope(make_envelope(fact, "any.id", STAMP)))
    assert (envelope.type, envelope.v) == (kind.__name__, kind.version)
    assert decode_fact(envelope) == fact


def test_an_envelope_says_who_when_and_why() -> None:
    fields = msgspec.json.decode(encode_envelope(make_envelope(FACT, "job.j1", STAMP)))
    assert fields | {"trace": None, "sig": None} == {
        "id": "id-1",
        "type": "JobRequeued",
        "v": 1,
        "at": "2026-01-02T03:04:05.678901Z",
        "agg": "job.j1",
        "actor": "service:test",
        "corr": "s1",
        "cause": "cause-1",
        "data": {
            "run": "r1",
            "reason": "lost",
            "avoid_agents": ["a1"],
            "chunk": None,
            "result": None,
        },
        "trace": None,
        "sig": None,
    }


def test_fields_that_a_newer_writer_added_are_ignored() -> None:
    fields = msgspec.json.decode(encode_envelope(make_envelope(FACT, "job.j1", STAMP)))
    fields["mood"] = "fine"
    fields["data"]["weather"] = "wet"
    assert decode_fact(decode(encode(fields))) == FACT


@pytest.mark.parametrize("change", [{"type": "JobEaten"}, {"v": 2}])
def test_an_event_from_the_future_says_update_first(change: dict[str, object]) -> None:
    fields = msgspec.json.decode(encode_envelope(make_envelope(FACT, "job.j1", STAMP))) | change
    with pytest.raises(UnknownEvent, match="update this service first"):
        decode_fact(decode(encode(fields)))


def test_an_event_too_large_is_refused_with_its_size() -> None:
    large = JobRequeued(run="r1", reason="x" * EVENT_BYTES_MAX)
    with pytest.raises(ValueError, match="store the data in a blob"):
        encode_envelope(make_envelope(large, "job.j1", STAMP))
