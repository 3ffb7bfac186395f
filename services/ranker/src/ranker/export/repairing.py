"""A damaged log put together again, in a file: the archive's events, then what only the log has."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

from ranker.domain.kept import Damaged, Kept, kept
from ranker.domain.scrub import Pair, ScrubReport, Sequences
from ranker.export.file import Reader, Writer
from shared import subjects
from shared.errors import Refused
from shared.event_log import Recorded
from shared.wire import read

NAMED_MAX = 5
# The agent under whose name placeholders lie; if there is one, it has no such run.
LOST = "lost"


def check_repairable(found: ScrubReport, *, overwrite: bool, accept_loss: bool) -> None:
    """Refuse what a repair cannot do, or may do only when it is told to. Errors: Refused."""
    if found.archive_findings:
        seq, what = found.archive_findings[0]
        raise Refused(
            "archive_damaged",
            f"the archive cannot be repaired from: event {seq}: {what}; restore a backup instead",
        )
    if found.lost.count and not accept_loss:
        raise Refused(
            "events_lost",
            f"neither the log nor the archive has {name_ranges(found.lost)}: restore a backup, "
            "or repair without them by --accept-loss",
        )
    if found.differing.count and not overwrite:
        raise Refused(
            "events_differ",
            f"the log has other events than the archive at {name_ranges(found.differing)}; "
            "put the archive's in their place by --overwrite",
        )


def name_ranges(sequences: Sequences) -> str:
    """The first of some sequences, in words.

    >>> name_ranges(Sequences(4, [(3, 5), (9, 9)]))
    'events 3 to 5, 9'
    """
    named = [
        str(first) if first == last else f"{first} to {last}" for first, last in sequences.ranges
    ]
    more = " and more" if len(named) > NAMED_MAX or sequences.is_full else ""
    return f"events {', '.join(named[:NAMED_MAX])}{more}"


def make_placeholder(seq: int) -> Kept:
    """What stands where an event is lost, so that all others keep their sequences.

    It lies where an agent might write, and means nothing to anybody: every reader drops it, and an
    audit names it as ignored.
    """
    agg, body = subjects.report(LOST, f"e{seq}"), b"{}"
    return kept(Recorded(seq, read(agg, seq, body), body))


async def write_repaired(
    pairs: AsyncIterator[Pair], file: Path, count: int, key: str | None
) -> str:
    """Write the log as it has to be, `count` events, and return its chain, hex.

    Where an event is lost, something stands that means nothing.
    """
    writer = Writer(file, count, key)
    try:
        async for one in pairs:
            writer.write(one.archived or one.logged or make_placeholder(one.seq))
        chain = writer.close()
    finally:
        writer.drop()
    _sync(file)
    return chain


def _sync(file: Path) -> None:
    """Have a file survive a power cut: the damaged log is deleted next, so it is all there is."""
    for path in (file, file.absolute().parent):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def read_repaired(file: Path, count: int) -> Reader:
    """A repaired log that was written before. Errors: Refused if it is not of this log."""
    try:
        reader = Reader(file)
    except Damaged as damaged:
        raise Refused("bad_export", f"{file}: {damaged.what}", "file") from damaged
    if reader.header.count < count:
        raise Refused(
            "bad_file",
            f"{file} has {reader.header.count} events, not the {count} of the log or its archive: "
            "name a file that does not exist yet",
            "file",
        )
    return reader
