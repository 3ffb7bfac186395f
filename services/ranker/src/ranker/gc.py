"""Collects blobs that no event names and that are old enough for none to name them any more."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.blobs import COLLECTED_S, Attic, Kept
from shared.errors import Failed
from shared.event_log import EventLog

# Whatever looks like a digest is a name: a type that we do not know may name blobs too.
NAME = re.compile(rb'"([0-9a-f]{64})"')


@dataclass(frozen=True)
class Collection:
    """What a collection found, and, unless it was a trial, removed."""

    is_trial: bool
    seq: int
    blobs: int
    blobs_old: int
    removed: int
    removed_bytes: int


async def collect(log: EventLog, attic: Attic, moment: datetime, *, is_trial: bool) -> Collection:
    """Remove what is older than two days and named by no event; a trial only counts.

    First the store is listed, then the log is read to its end: a put after the listing makes old
    bytes young again, under a place that the listing does not know. Memory is 32 bytes for each
    old blob. Errors: Failed, and if the log is empty; Gap if it lost its beginning.
    """
    listed = [kept async for kept in attic.kept()]
    before = moment - timedelta(seconds=COLLECTED_S)
    old = [kept for kept in listed if kept.at < before]
    seq = await log.last()
    if old and not seq:
        raise Failed("the log is empty and the store is not: that is not their first day together")
    unnamed = await _unnamed(log, old, seq)
    removed = unnamed if is_trial else [kept for kept in unnamed if await attic.remove(kept)]
    weight = sum(kept.bytes for kept in removed)
    return Collection(is_trial, seq, len(listed), len(old), len(removed), weight)


async def _unnamed(log: EventLog, old: list[Kept], until: int) -> list[Kept]:
    digests = {bytes.fromhex(kept.digest) for kept in old}
    feed, done = log.follow(0), 0
    try:
        while done < until:
            for event in await feed.take():
                digests.difference_update(map(_raw, NAME.findall(event.body)))
                done = event.seq
    finally:
        await feed.close()
    # Of what was left unfinished no digest is known: it is b"", which nothing names.
    return [kept for kept in old if bytes.fromhex(kept.digest) in digests]


def _raw(name: bytes) -> bytes:
    return bytes.fromhex(name.decode())
