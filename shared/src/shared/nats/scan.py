"""The log read around its damage: every event that the server can still read, and no error."""

from collections.abc import AsyncIterator
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.nats.pages import PAGE, read_page
from shared.nats.requests import Denied, Passing, Stored, find, patiently
from shared.subjects import STREAM

# So often a page may stay without an answer before events are asked for one by one.
SILENT_PAGES_MAX = 3


async def scan(nc: Client, last_seq: int) -> AsyncIterator[Stored]:
    """The events up to a sequence, without those that cannot be read.

    Errors: Failed if the server could not be reached in 30 s.
    """
    seq, silent_pages = 0, 0
    while seq < last_seq:
        found: list[Stored] = []
        if silent_pages < SILENT_PAGES_MAX:
            try:
                found = await _page(nc, seq)
                silent_pages = 0
            except TimeoutError:
                # Of a block that it cannot read, a server may say nothing at all.
                silent_pages += 1
        if not found:
            found, seq = await _one_by_one(nc, seq, last_seq)
        for one in found:
            if one.seq <= last_seq:
                yield one
        seq = max(seq, found[-1].seq if found else 0)


async def _page(nc: Client, after: int) -> list[Stored]:
    """The next events; none if the first of them cannot be read. Errors: TimeoutError."""
    found: list[Stored] = []
    which = {"seq": after + 1, "batch": PAGE, "next_by_subj": "events.>"}

    async def attempt() -> None:
        found.clear()
        await read_page(nc, STREAM, msgspec.json.encode(which), found)

    try:
        await attempt()
    except (Passing, Denied):
        await patiently(nc, attempt)
    return found


async def _one_by_one(nc: Client, after: int, last_seq: int) -> tuple[list[Stored], int]:
    """A page's worth of events, each asked for by itself, and up to where that went."""
    found: list[Stored] = []
    end = min(after + PAGE, last_seq)
    for seq in range(after + 1, end + 1):
        one = await patiently(nc, partial(_find, nc, seq))
        if one is not None:
            found.append(one)
    return found, end


async def _find(nc: Client, seq: int) -> Stored | None:
    try:
        return await find(nc, STREAM, {"seq": seq})
    except Denied:
        return None
