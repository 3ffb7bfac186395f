"""Atomic batches: several messages that a stream keeps all or not at all (JetStream's ADR-50)."""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from nats.aio.client import Client

from shared.nats.requests import ATTEMPT_S_MAX, EXPECTED, MESSAGE_ID, Passing, check

BATCH_MAX = 1000


class Draft(NamedTuple):
    """A message to store: where, under which id, after which sequence of that subject."""

    subject: str
    id: str
    data: bytes
    expected: int | None

    @property
    def headers(self) -> dict[str, str]:
        """What the server checks before it stores the message."""
        headers = {MESSAGE_ID: self.id}
        if self.expected is not None:
            headers[EXPECTED] = str(self.expected)
        return headers


async def publish_batch(nc: Client, drafts: Sequence[Draft]) -> int:
    """Publish a batch once and return the sequence of its last; errors: Denied, Passing.

    A new name each time: what an earlier attempt left unfinished is dropped after ten seconds.
    """
    name = secrets.token_hex(16)
    first, *others, last = [
        (draft, draft.headers | {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(place)})
        for place, draft in enumerate(drafts, 1)
    ]
    # The server acknowledges the opening of a batch with nothing at all.
    opened = await _ask(nc, *first)
    if opened:
        check(opened)
    for draft, headers in others:
        await nc.publish(draft.subject, draft.data, headers=headers)
    draft, headers = last
    done = await _ask(nc, draft, headers | {"Nats-Batch-Commit": "1"})
    if not done:
        raise Passing("the end of the batch was not acknowledged")
    return check(done)


async def _ask(nc: Client, draft: Draft, headers: dict[str, str]) -> bytes:
    return (await nc.request(draft.subject, draft.data, ATTEMPT_S_MAX, headers=headers)).data
