"""Unreadable messages of an agent mean nothing and hold nothing up."""

from datetime import UTC, datetime

import msgspec
import pytest

from ranker.blobs import find_blob_digests
from ranker.domain.fold import decode_event, find_required_rows, fold
from ranker.domain.rows import Rows
from ranker.domain.stored_log import CHAIN_START, ChainVerifier, StoredEvent
from ranker.http.submissions import MEDIA
from shared.event_log import RecordedEvent
from shared.events import Fact
from shared.verdicts import verify_verdict
from shared.wire import (
    UNREADABLE,
    EventMetadata,
    UnknownEvent,
    make_envelope,
)

BODIES = (b"", b"no event", b"[" * 200_000, b'{"id":"\xff"}', b"null")


def noise(body: bytes, subject: str = "events.report.a1.r1") -> StoredEvent:
    return StoredEvent(1, subject, "unreadable-1", body)


@pytest.mark.parametrize("body", BODIES)
def test_noise_changes_no_row_and_names_no_blob(body: bytes) -> None:
    event = noise(body).recorded
    assert event.envelope.type == UNREADABLE
    decoded = decode_event(event)
    assert not any(
        getattr(find_required_rows([decoded]), name) for name in ("runs", "jobs", "submissions")
    )
    assert fold(Rows(), [decoded]) == Rows()
    assert list(find_blob_digests(event.envelope)) == []


def test_what_is_no_event_elsewhere_is_poison() -> None:
    with pytest.raises(ValueError, match="not an event"):
        decode_event(noise(b"no event", "events.submission.s1").recorded)


def test_a_verdict_whose_data_is_none_is_passed_over_on_an_agents_subject_alone() -> None:
    stamp = EventMetadata("e1", datetime(2026, 1, 2, tzinfo=UTC), "agent:a1", "", "")
    empty = make_envelope(Fact(), "report.a1.r1", stamp)
    verdict = msgspec.structs.replace(empty, type="RunCompleted")
    assert fold(Rows(), [decode_event(RecordedEvent(1, verdict))]) == Rows()
    elsewhere = msgspec.structs.replace(empty, aggregate="submission.s1", type="SubmissionFinished")
    with pytest.raises(msgspec.ValidationError):
        decode_event(RecordedEvent(1, elsewhere))
    later = msgspec.structs.replace(verdict, v=99)
    with pytest.raises(UnknownEvent):
        decode_event(RecordedEvent(1, later))


@pytest.mark.parametrize("body", BODIES)
def test_a_log_with_noise_in_it_is_whole_and_can_be_restored(body: bytes) -> None:
    stored = noise(body)
    scrutiny = ChainVerifier((), verify_verdict)
    assert scrutiny.look(stored._replace(h=stored.chain_after(CHAIN_START))) is not None
    assert scrutiny.findings == []


def test_an_event_that_was_made_unreadable_is_found() -> None:
    scrutiny = ChainVerifier((), verify_verdict)
    scrutiny.look(noise(b"no event")._replace(id="its-own-id"))
    (finding,) = scrutiny.findings
    assert finding.what == "the event cannot be read"


@pytest.mark.parametrize("media", ["text/html\r\nSet-Cookie: a=b", "text/html\n", "a/é", "", "a"])
def test_what_an_agent_says_of_a_file_is_a_media_type_or_nothing(media: str) -> None:
    assert not MEDIA.match(media)
    assert MEDIA.match("application/vnd.nsight+json")
