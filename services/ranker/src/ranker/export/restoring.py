"""A log out of a file: into an empty one, or on from where an import was broken off."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ranker.domain.kept import Damaged, Kept, kept
from ranker.domain.scrutiny import Scrutiny
from ranker.export.file import Reader
from shared import chain
from shared.errors import Failed, Refused
from shared.event_log import EventLog
from shared.signing import verify

BATCH_MAX = 500
BATCH_BYTES_MAX = 8 * 1024 * 1024

Store = Callable[[Sequence[Kept], int], Awaitable[None]]


class Restored(NamedTuple):
    """How many events there are now, how many of them were stored just now, and their chain."""

    events: int
    stored: int
    chain: str


class Checked(NamedTuple):
    """A file that may be restored: the chain of it, and how much of it the log has already."""

    chain: bytes
    have: int


async def restore(reader: Reader, log: EventLog, store: Store) -> Restored:
    """Store a file's events with their sequences, ids and bytes; harmless to repeat.

    `store` keeps a batch after a sequence, each event byte for byte. Errors: Refused if the file
    is not whole and untouched, or the log holds anything else; Failed.
    """
    return await store_events(reader, log, store, await check_restorable(reader, log))


async def check_restorable(reader: Reader, log: EventLog) -> Checked:
    """Check a file and the log that it is for, and change nothing. Errors: Refused; Failed."""
    h = _checked(reader)
    have = await log.last()
    await _compare(reader, log, have)
    return Checked(h, have)


async def store_events(reader: Reader, log: EventLog, store: Store, checked: Checked) -> Restored:
    """Store the events of a file that was checked. Errors: Failed."""
    stored = 0
    for batch in _batches(one for one in reader.events() if one.seq > checked.have):
        await store(batch, batch[0].seq - 1)
        stored += len(batch)
    count = checked.have + stored
    if await _chain(log, count) != checked.chain:
        raise Failed("what the log has now is not what the file has: do not use it")
    return Restored(count, stored, checked.chain.hex())


def _checked(reader: Reader) -> bytes:
    """The chain of a file that may be believed. Errors: Refused."""
    scrutiny = Scrutiny((), verify)
    try:
        for one in reader.events():
            scrutiny.look(one)
    except Damaged as damaged:
        raise Refused("bad_export", damaged.what, "file") from damaged
    if reader.end is not None and reader.end.h != scrutiny.chain:
        scrutiny.find(scrutiny.seq, "the chain is not the one in the file's last line")
    if scrutiny.findings:
        seq, what = scrutiny.findings[0]
        raise Refused("bad_export", f"event {seq}: {what}", "file")
    return bytes.fromhex(scrutiny.chain)


async def _compare(reader: Reader, log: EventLog, have: int) -> None:
    """A log that is not empty must be the beginning of this very one. Errors: Refused."""
    if have == 0:
        return
    ours = await _chain(log, have)
    theirs, seq = chain.START, 0
    for one in reader.events():
        if seq == have:
            break
        theirs, seq = chain.after(theirs, one.link), one.seq
    if (ours, have) != (theirs, seq):
        what = f"the log has {have} events that are not the beginning of the file's"
        raise Refused("log_not_empty", f"{what}: import into an empty one")


async def _chain(log: EventLog, upto: int) -> bytes:
    """The chain over the log as it is read, up to a sequence."""
    h, seq = chain.START, 0
    feed = log.follow(0)
    try:
        while seq < upto:
            for event in await feed.take(upto - seq):
                h, seq = chain.after(h, kept(event).link), event.seq
    finally:
        await feed.close()
    return h


def _batches(events: Iterable[Kept]) -> Iterator[list[Kept]]:
    """Runs of events that may be stored at once."""
    batch: list[Kept] = []
    weight = 0
    for one in events:
        if batch and (len(batch) == BATCH_MAX or weight + len(one.body) > BATCH_BYTES_MAX):
            yield batch
            batch, weight = [], 0
        batch.append(one)
        weight += len(one.body)
    if batch:
        yield batch
