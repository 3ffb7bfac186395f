"""Events byte for byte into the log, each at its old sequence: for a restore, and nothing else."""

from collections.abc import Sequence

from nats.aio.client import Client

from shared.errors import Failed
from shared.nats.batch import Draft, publish_batch
from shared.nats.event_log import LOOK
from shared.nats.requests import Denied, patiently, publish
from shared.nats.streams import state
from shared.subjects import STREAM


async def append_raw(nc: Client, events: Sequence[tuple[str, str, bytes]], after: int) -> None:
    """Store (subject, id, body) at the sequences right after one, all or none; again is harmless.

    Nobody else may write meanwhile. Errors: Failed, also if somebody did.
    """
    drafts = [Draft(subject, id_, body, None) for subject, id_, body in events]
    end = after + len(drafts)

    async def once() -> None:
        have = (await state(nc, STREAM)).last_seq
        if have == end:
            return
        if have != after:
            raise Failed(f"the log is at {have}, not at {after}: somebody else writes")
        try:
            await _store(nc, drafts)
        except Denied as denied:
            # An answer was lost, and its batch came in after we looked.
            if denied.code not in LOOK or (await state(nc, STREAM)).last_seq != end:
                raise

    await patiently(nc, once)


async def _store(nc: Client, drafts: Sequence[Draft]) -> None:
    if len(drafts) == 1:
        (draft,) = drafts
        await publish(nc, draft.subject, draft.data, draft.headers)
    else:
        await publish_batch(nc, drafts)
