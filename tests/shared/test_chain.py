"""The chain covers every event, its sequence and everything before it."""

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.wire import CHAIN_START, ChainLink, extend_chain

LINK = ChainLink(7, "events.problem.p", "e1", b'{"id":"e1"}')
TEXT = st.text(max_size=20)
LINKS = st.builds(ChainLink, st.just(1), TEXT, TEXT, st.binary(max_size=20))


def test_it_is_what_the_decision_record_says() -> None:
    before = bytes(range(32))
    head = struct.pack(">Q", 7)
    subject = struct.pack(">H", 16) + b"events.problem.p"
    identity = struct.pack(">H", 2) + b"e1"
    expected = hashlib.sha256(before + head + subject + identity + LINK.body).digest()
    assert extend_chain(before, LINK) == expected


@pytest.mark.parametrize(
    "other",
    [
        LINK._replace(seq=8),
        LINK._replace(subject="events.problem.q"),
        LINK._replace(id="e2"),
        LINK._replace(body=b'{"id":"e2"}'),
        LINK._replace(subject="events.problem.pe", id="1"),
    ],
)
def test_whatever_is_changed_changes_it(other: ChainLink) -> None:
    assert extend_chain(CHAIN_START, other) != extend_chain(CHAIN_START, LINK)


def test_another_past_changes_it() -> None:
    assert extend_chain(extend_chain(CHAIN_START, LINK), LINK) != extend_chain(CHAIN_START, LINK)


@given(LINKS, LINKS)
def test_no_two_events_look_the_same(one: ChainLink, two: ChainLink) -> None:
    assert (extend_chain(CHAIN_START, one) == extend_chain(CHAIN_START, two)) == (one == two)
