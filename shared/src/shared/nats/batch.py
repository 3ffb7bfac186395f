"""Atomic batches: several messages that a stream keeps all or not at all (JetStream's ADR-50)."""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from nats.aio.client import Client

from shared.nats.requests import EXPECTED, EXPECTED_ON, MESSAGE_ID, Passing, check, request

BATCH_MAX = 1000


class Draft(NamedTuple):
    """A message to store: where, under which id, after which sequence of its history.

    `history` is the filter of that history's subjects, "" where it is of the one subject alone.
    """

    subject: str
    id: str
    data: bytes
    expected: int | None
    history: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """What the server checks before it stores the message."""
        headers = {MESSAGE_ID: self.id}
        if self.expected is not None:
            headers[EXPECTED] = str(self.expected)
            if self.versioned != self.subject:
                headers[EXPECTED_ON] = self.versioned
        return headers

    @property
    def versioned(self) -> str:
        """The filter of the subjects that `expected` is a sequence of."""
        return self.history or self.subject

    @property
    def message(self) -> tuple[str, bytes, dict[str, str]]:
        """Subject, data and headers, to publish it alone."""
        return self.subject, self.data, self.headers


async def publish_batch(nc: Client, drafts: Sequence[Draft]) -> int:
    """Publish a batch once and return the sequence of its last; errors: Denied, Passing.

    A new name each time: what an earlier attempt left unfinished is dropped after ten seconds.
    One round trip: whatever was wrong with the messages before, the answer to the last one says.
    """
    name = secrets.token_hex(16)
    *others, (last, headers) = [
        (draft, draft.headers | {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(place)})
        for place, draft in enumerate(drafts, 1)
    ]
    for draft, said in others:
        await nc.publish(draft.subject, draft.data, headers=said)
    end = headers | {"Nats-Batch-Commit": "1"}
    done = await request(nc, last.subject, last.data, end)
    if not done:
        raise Passing("the end of the batch was not acknowledged")
    return check(done)
