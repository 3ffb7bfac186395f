"""The chain covers every event, its sequence and everything before it."""

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.domain.stored_log import CHAIN_START, StoredEvent

EVENT = StoredEvent(7, "events.problem.p", "e1", b'{"id":"e1"}')
TEXT = st.text(max_size=20)
EVENTS = st.builds(StoredEvent, st.just(1), TEXT, TEXT, st.binary(max_size=20), st.none())


def test_it_is_what_the_decision_record_says() -> None:
    before = bytes(range(32))
    head = struct.pack(">Q", 7)
    subject = struct.pack(">H", 16) + b"events.problem.p"
    identity = struct.pack(">H", 2) + b"e1"
    expected = hashlib.sha256(before + head + subject + identity + EVENT.body).digest()
    assert EVENT.chain_after(before) == expected


@pytest.mark.parametrize(
    "other",
    [
        EVENT._replace(seq=8),
        EVENT._replace(subject="events.problem.q"),
        EVENT._replace(id="e2"),
        EVENT._replace(body=b'{"id":"e2"}'),
        EVENT._replace(subject="events.problem.pe", id="1"),
    ],
)
def test_whatever_is_changed_changes_it(other: StoredEvent) -> None:
    assert other.chain_after(CHAIN_START) != EVENT.chain_after(CHAIN_START)


def test_another_past_changes_it() -> None:
    assert EVENT.chain_after(EVENT.chain_after(CHAIN_START)) != EVENT.chain_after(CHAIN_START)


@given(EVENTS, EVENTS)
def test_no_two_events_look_the_same(one: StoredEvent, two: StoredEvent) -> None:
    assert (one.chain_after(CHAIN_START) == two.chain_after(CHAIN_START)) == (one == two)
