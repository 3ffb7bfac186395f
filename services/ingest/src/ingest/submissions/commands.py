"""What clients ask for about submissions."""

from typing import NamedTuple

from ingest.http.bodies import RequestModel
from ingest.http.fields import SubmissionNoteText, Tag
from ingest.identity.caller import Caller
from ingest.ports import Note
from shared.api.submissions import SubmissionRequest


class Upload(NamedTuple):
    """A submission request as it arrived.

    With an `operator` who sends it for the caller, it may come after the deadline and join a full
    queue.
    """

    caller: Caller
    request: SubmissionRequest
    via: str
    idempotency_key: str | None
    operator: str = ""


class NoteRequest(RequestModel):
    """A private note on a submission; empty fields remove it."""

    note: SubmissionNoteText = ""
    tag: Tag = ""

    def to_note(self) -> Note:
        """Return the note, without empty fields."""
        return Note(self.note or None, self.tag or None)
