"""What an agent writes that is no event says nothing, and holds nobody up."""

from datetime import UTC, datetime

import msgspec
import pytest

from ranker.domain.batch import Rows, needs, tell
from ranker.domain.fold import fold
from ranker.domain.kept import Kept
from ranker.domain.named import named
from ranker.domain.scrutiny import Scrutiny
from ranker.http.files import MEDIA
from shared.chain import START, after
from shared.event_log import Recorded
from shared.events import Fact
from shared.signing import verify
from shared.wire import UNREADABLE, Stamp, UnknownEvent, seal

BODIES = (b"", b"no event", b"[" * 200_000, b'{"id":"\xff"}', b"null")


def noise(body: bytes, subject: str = "events.run.a1.r1") -> Kept:
    return Kept(1, subject, "unreadable-1", body)


@pytest.mark.parametrize("body", BODIES)
def test_noise_changes_no_row_and_names_no_blob(body: bytes) -> None:
    event = noise(body).recorded
    assert event.envelope.type == UNREADABLE
    told = tell(event)
    assert not any(getattr(needs([told]), name) for name in ("runs", "jobs", "submissions"))
    assert fold(Rows(), [told]) == Rows()
    assert list(named(event.envelope)) == []


def test_what_is_no_event_elsewhere_is_poison() -> None:
    with pytest.raises(ValueError, match="no event"):
        tell(noise(b"no event", "events.submission.s1").recorded)


def test_a_verdict_whose_data_is_none_is_passed_over_on_an_agents_subject_alone() -> None:
    stamp = Stamp("e1", datetime(2026, 1, 2, tzinfo=UTC), "agent:a1", "", "")
    empty = seal(Fact(), "run.a1.r1", stamp)
    verdict = msgspec.structs.replace(empty, type="RunCompleted")
    assert fold(Rows(), [tell(Recorded(1, verdict))]) == Rows()
    elsewhere = msgspec.structs.replace(empty, agg="submission.s1", type="SubmissionFinished")
    with pytest.raises(msgspec.ValidationError):
        tell(Recorded(1, elsewhere))
    later = msgspec.structs.replace(verdict, v=99)
    with pytest.raises(UnknownEvent):
        tell(Recorded(1, later))


@pytest.mark.parametrize("body", BODIES)
def test_a_log_with_noise_in_it_is_whole_and_can_be_restored(body: bytes) -> None:
    one = noise(body)
    scrutiny = Scrutiny((), verify)
    assert scrutiny.look(one._replace(h=after(START, one.link))) is not None
    assert scrutiny.findings == []


def test_an_event_that_was_made_unreadable_is_found() -> None:
    scrutiny = Scrutiny((), verify)
    scrutiny.look(noise(b"no event")._replace(id="its-own-id"))
    (finding,) = scrutiny.findings
    assert finding.what == "the event cannot be read"


@pytest.mark.parametrize("said", ["text/html\r\nSet-Cookie: a=b", "text/html\n", "a/é", "", "a"])
def test_what_an_agent_says_of_a_file_is_a_media_type_or_nothing(said: str) -> None:
    assert not MEDIA.match(said)
    assert MEDIA.match("application/vnd.nsight+json")
