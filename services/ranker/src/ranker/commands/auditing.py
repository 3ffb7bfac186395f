"""Wires an audit: of the running platform, or of an exported file alone."""

import asyncio
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ranker.archive.postgres import PACKAGE, SCHEMA, Archive, archive
from ranker.audit.auditing import Live, Question, audit
from ranker.audit.copies import ArchiveCopy, FileCopy
from ranker.domain.kept import Damaged
from ranker.domain.report import Report
from ranker.domain.scrutiny import Published
from ranker.domain.ties import places
from ranker.export.file import Reader as FileReader
from ranker.postgres import Reader
from ranker.service import Board, Reads
from ranker.service.top import read_ladder, read_page, standings
from ranker.settings import Settings
from shared.clock import now
from shared.errors import Failed, Refused
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.postgres import migrate, pool
from shared.signing import load_key, public_key, verify

CATCH_UP_S_MAX = 30.0
POLL_S = 0.05
ENTRIES_MAX = 1_000_000
LOOKS_MAX = 100


def own_key(settings: Settings) -> str | None:
    """The public key of this platform's seals, if it has any yet."""
    path = settings.seal_key
    return public_key(load_key(path)) if path is not None and path.exists() else None


def _question(asked: Namespace, published: Sequence[Published], known: str | None) -> Question:
    return Question(
        problem=asked.problem,
        gpu=asked.gpu,
        version=asked.version,
        as_of=asked.as_of,
        as_of_seq=asked.as_of_seq,
        keys=[*asked.key, *([known] if known else [])],
        published=published,
    )


async def audit_live(
    settings: Settings, schema: str, asked: Namespace, published: Sequence[Published]
) -> Report:
    """Log, archive and live read models of a running platform. Errors: Refused; Failed."""
    question = _question(asked, published, own_key(settings))
    dsn = settings.postgres_dsn
    for package, where in (("shared", "accounts"), ("ranker", schema), (PACKAGE, SCHEMA)):
        await asyncio.to_thread(migrate, dsn, package, where)
    nc = await connect(settings.nats_url, "ranker-audit")
    try:
        async with pool(dsn, 1, 1, schema) as connections, archive(dsn) as kept:
            live = None
            if question.as_of is None and question.as_of_seq is None:
                live = await _shown(Reader(connections), question)
                await _catch_up(kept, live.seq)
                question = replace(question, as_of_seq=live.seq)
            return await audit(question, ArchiveCopy(kept, NatsLog(nc)), verify, live)
    finally:
        await nc.close()


async def audit_file(asked: Namespace, published: Sequence[Published]) -> Report:
    """An exported file; seals are checked with the file's own key if no other is given."""
    try:
        reader = FileReader(asked.file)
    except Damaged as damaged:
        raise Refused("bad_export", damaged.what, "file") from damaged
    known = None if asked.key else reader.header.key
    return await audit(_question(asked, published, known), FileCopy(reader), verify)


async def _shown(reader: Reader, question: Question) -> Live:
    """What readers are shown, of one moment: read again if something was folded meanwhile."""
    problems = await reader.rows("newest_version", slug=question.problem)
    number = question.version or (problems[0]["number"] if problems else 0)
    for _ in range(LOOKS_MAX):
        (before,), at = await reader.rows("checkpoint"), now()
        entries = await shown_entries(reader, Board(question.problem, question.gpu, number), at)
        (after,) = await reader.rows("checkpoint")
        if before == after and not before["seq"]:
            raise Refused("nothing_folded", "nothing is folded yet: start the platform first")
        if before == after:
            return Live(after["seq"], at, entries)
    raise Failed("the read models never stood still: audit with --as-of-seq")


async def shown_entries(reader: Reads, board: Board, at: datetime) -> list[dict[str, Any]]:
    """The entries with the places and confirmations that readers are shown."""
    page = await read_page(reader, board, range(ENTRIES_MAX), at)
    if page.holds:
        entries = [
            one.row | {"rank": one.place.rank, "is_tied": one.place.is_tied, "duel": one.place.duel}
            for one in page.placed
        ]
    else:
        entries = with_duels(await read_ladder(reader, board, ENTRIES_MAX, at))
    rows = await reader.rows(
        "confirmations_shown",
        problem=board.problem,
        gpu=board.gpu,
        number=board.problem_number,
    )
    shown = {row["submission"]: row["shown"] for row in rows}
    return [entry | {"confirmation": shown.get(entry["submission"], "")} for entry in entries]


def with_duels(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries with what is shown of their duels."""
    duels = {place.number: place.duel for place in places(standings(entries))}
    return [entry | {"duel": duels[entry["number"]]} for entry in entries]


async def _catch_up(kept: Archive, seq: int) -> None:
    until = time.monotonic() + CATCH_UP_S_MAX
    while (archived := await kept.checkpoint()) < seq:
        if time.monotonic() > until:
            raise Failed(f"the archive stands at {archived}, the read models at {seq}")
        await asyncio.sleep(POLL_S)
