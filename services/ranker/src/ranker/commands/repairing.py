"""Wires a scrub of the log against its archive, and its repair from there."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ranker.archive.postgres import PACKAGE, SCHEMA, Archive, archive
from ranker.commands.auditing import own_key
from ranker.commands.copying import import_events
from ranker.domain.kept import Kept, kept
from ranker.domain.scrub import Pair, ScrubReport, pair, scrub
from ranker.domain.scrutiny import Scrutiny
from ranker.export.repairing import check_repairable, read_repaired, write_repaired
from ranker.settings import Settings
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.repair import LogRepair, Place
from shared.nats.streams import ensure
from shared.postgres import migrate
from shared.signing import verify

PAGE = 2000


async def scrub_log(settings: Settings) -> ScrubReport:
    """Compare the log with its archive, event by event. Errors: Refused; Failed."""
    await asyncio.to_thread(migrate, settings.postgres_dsn, PACKAGE, SCHEMA)
    nc = await connect(settings.nats_url, "ranker-scrub")
    try:
        async with archive(settings.postgres_dsn) as copy:
            return await _scrub(settings, LogRepair(nc), copy)
    finally:
        await nc.close()


async def repair_log(
    settings: Settings, file: Path, actor: str, *, overwrite: bool, accept_loss: bool
) -> dict[str, Any]:
    """Put back what the log lacks, by way of a file with all of it; harmless to repeat.

    Nobody else may write meanwhile. Errors: Refused; Failed.
    """
    await asyncio.to_thread(migrate, settings.postgres_dsn, PACKAGE, SCHEMA)
    is_written = _is_there(file)
    nc = await connect(settings.nats_url, "ranker-repair")
    try:
        await ensure(nc, settings.replicas)
        log = LogRepair(nc)
        async with archive(settings.postgres_dsn) as copy:
            found = await _scrub(settings, log, copy)
            if found.is_clean and not is_written:
                return {"is_repaired": False, **found.data()}
            count = found.found_seq
            if not is_written:
                check_repairable(found, overwrite=overwrite, accept_loss=accept_loss)
                _write_places(file, await log.read_places())
                pairs = _pairs(log, copy, count, found)
                await write_repaired(pairs, file, count, own_key(settings))
        reader = read_repaired(file, count if not found.is_clean else 0)
        if not (found.is_clean or found.is_beginning):
            await log.replace()
        done = await import_events(NatsLog(nc), log.append, reader, actor)
        await log.restore_places(_read_places(file))
        await log.forget_known_seq()
    finally:
        await nc.close()
    return {"is_repaired": True, **found.data(), **done, "file": str(file)}


async def _scrub(settings: Settings, log: LogRepair, copy: Archive) -> ScrubReport:
    # The archive first: what is archived was in the log before.
    archive_last_seq = await copy.checkpoint()
    log_last_seq = await log.last_seq()
    last_seq = max(archive_last_seq, log_last_seq, await log.known_seq())
    report = ScrubReport(last_seq, log_last_seq, archive_last_seq)
    key = own_key(settings)
    scrutiny = Scrutiny([key] if key else [], verify)
    return await scrub(_pairs(log, copy, last_seq, report), report, scrutiny)


def _pairs(
    log: LogRepair, copy: Archive, last_seq: int, report: ScrubReport
) -> AsyncIterator[Pair]:
    logged = _logged(log, report.log_last_seq)
    return pair(logged, _archived(copy, report.archive_last_seq), last_seq)


async def _logged(log: LogRepair, last_seq: int) -> AsyncIterator[Kept]:
    async for event in log.events(last_seq):
        yield kept(event)


async def _archived(copy: Archive, last_seq: int) -> AsyncIterator[Kept]:
    seq = 0
    while seq < last_seq and (page := await copy.page(seq, min(PAGE, last_seq - seq))):
        for one in page:
            if one.seq <= last_seq:
                yield one
        seq = page[-1].seq


def _is_there(file: Path) -> bool:
    return file.exists()


def _places_file(file: Path) -> Path:
    """Where the places of the log's readers are kept, beside the repaired log."""
    return file.with_name(f"{file.name}.places")


def _write_places(file: Path, places: Sequence[Place]) -> None:
    _places_file(file).write_bytes(msgspec.json.encode(places))


def _read_places(file: Path) -> list[Place]:
    path = _places_file(file)
    return msgspec.json.decode(path.read_bytes(), type=list[Place]) if path.exists() else []
