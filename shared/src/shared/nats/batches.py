"""Messages to store, and atomic batches of them, which a stream stores all or none of."""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from nats.aio.client import Client

from shared.nats.connection import (
    EXPECTED_SEQ_HEADER,
    EXPECTED_SUBJECT_HEADER,
    MESSAGE_ID_HEADER,
    TemporaryError,
    check_ack,
    request,
)

BATCH_MAX = 1000


class MessageDraft(NamedTuple):
    """A message to store: its subject, its id, and the expected sequence of its history.

    `history` is the filter of that history's subjects, "" if it is only this subject.
    """

    subject: str
    id: str
    data: bytes
    expected: int | None
    history: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which the server checks the message before it stores it."""
        headers = {MESSAGE_ID_HEADER: self.id}
        if self.expected is not None:
            headers[EXPECTED_SEQ_HEADER] = str(self.expected)
            if self.versioned != self.subject:
                headers[EXPECTED_SUBJECT_HEADER] = self.versioned
        return headers

    @property
    def versioned(self) -> str:
        """The filter of the subjects whose last sequence is `expected`."""
        return self.history or self.subject

    @property
    def message(self) -> tuple[str, bytes, dict[str, str]]:
        """Subject, data and headers, to publish it alone."""
        return self.subject, self.data, self.headers


async def publish_batch(nc: Client, drafts: Sequence[MessageDraft]) -> int:
    """Publish a batch once and return the sequence of its last; errors: those of publish.

    Each attempt has a new name: what an earlier one left unfinished is dropped after ten seconds.
    There is one round trip: the answer to the last message reports any error in the batch.
    """
    name = secrets.token_hex(16)
    *others, (last, headers) = [
        (draft, draft.headers | {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(place)})
        for place, draft in enumerate(drafts, 1)
    ]
    for draft, draft_headers in others:
        await nc.publish(draft.subject, draft.data, headers=draft_headers)
    commit_headers = headers | {"Nats-Batch-Commit": "1"}
    answer = await request(nc, last.subject, last.data, commit_headers)
    if not answer.data:
        raise TemporaryError("the end of the batch was not acknowledged")
    return check_ack(answer.data).seq
