"""The commands for segments: list, seal, verify, truncate, and copies of them in a folder."""

import asyncio
import hashlib
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from ranker.archive.postgres import PACKAGE, SCHEMA, open_archive
from ranker.archive.segments import Segmenter
from ranker.settings import TRUNCATE_DAYS_MIN, Settings
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Failed, Refused
from shared.events import Blob, SegmentSealed
from shared.nats.connection import connect
from shared.nats.segmented_log import NatsSegmentedLog
from shared.nats.streams import ensure_streams
from shared.postgres import migrate
from shared.private_files import create_private_folder, open_private
from shared.signing import load_key


async def run_segments(settings: Settings, options: Namespace) -> dict[str, Any]:
    """Run one of the commands; returns a summary. Raises Refused or Failed."""
    if options.action == "truncate" and options.keep_days < TRUNCATE_DAYS_MIN:
        reason = f"--keep-days is {options.keep_days:g}: expected at least {TRUNCATE_DAYS_MIN:g}"
        raise Refused("bad_days", reason, "keep_days")
    await asyncio.to_thread(migrate, settings.postgres_dsn, PACKAGE, SCHEMA)
    key = load_key(settings.seal_key) if settings.seal_key is not None else None
    nc = await connect(settings.bus_login, "ranker-segments")
    try:
        await ensure_streams(nc, settings.replicas)
        async with open_archive(settings.postgres_dsn) as archive:
            log = NatsSegmentedLog(nc)
            summary = await _run_action(log, Segmenter(log, archive, key), options)
            truncation = await log.truncation()
            segments = msgspec.to_builtins(await log.segments.list())
            state = {
                "segments": segments,
                "truncated_seq": truncation.seq,
                "is_truncating": truncation.is_unfinished,
            }
            return state | summary
    finally:
        await nc.close()


async def _run_action(
    log: NatsSegmentedLog, segmenter: Segmenter, options: Namespace
) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    match options.action:
        case "seal":
            summary = {"sealed": len(await segmenter.seal(only_full=False))}
        case "repair":
            summary = {"repaired": await segmenter.repair()}
        case "verify":
            findings = await segmenter.verify()
            summary = {"is_clean": not findings, "findings": msgspec.to_builtins(findings)}
        case "truncate" if options.is_trial:
            summary = {"is_trial": True, **asdict(await segmenter.plan(options.keep_days))}
        case "truncate":
            report = await segmenter.truncate(options.keep_days, options.actor)
            summary = {"is_trial": False, **asdict(report)}
        case "save":
            summary = await _save(await log.segments.list(), log.blobs, options.folder)
        case "load":
            summary = await _load(await log.segments.list(), log.blobs, options.folder)
    return summary


def _parts(segments: Sequence[SegmentSealed], folder: Path) -> list[tuple[Path, Blob]]:
    """Return the files of segments in a folder, and the blob that each is a copy of."""
    parts = []
    for segment in segments:
        name = f"{segment.first:012d}-{segment.last:012d}"
        parts.append((folder / f"{name}.jsonl.gz", segment.events))
        parts.append((folder / f"{name}.histories", segment.histories))
    return parts


async def _save(
    segments: Sequence[SegmentSealed], blobs: BlobStore, folder: Path
) -> dict[str, Any]:
    """Copy segments into a folder, which may be a mount; files that are there are checked."""
    create_private_folder(folder)
    saved = 0
    for path, blob in _parts(segments, folder):
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == blob.digest:
            continue
        try:
            data = await blobs.get(blob.digest)
        except BlobNotFound as missing:
            raise Failed(
                f"the segment of {path.name} is damaged or missing: {missing}"
            ) from missing
        part = path.with_name(f"{path.name}.part")
        with open_private(part) as file:
            file.write(data)
        part.replace(path)
        saved += 1
    return {"folder": str(folder), "files": saved}


async def _load(
    segments: Sequence[SegmentSealed], blobs: BlobStore, folder: Path
) -> dict[str, Any]:
    """Put damaged or missing segments back from a folder. Raises Refused for a wrong file."""
    loaded = 0
    for path, blob in _parts(segments, folder):
        try:
            await blobs.get(blob.digest)
        except BlobNotFound as missing:
            if not path.is_file():
                raise Refused("no_file", f"there is no file {path}", "folder") from missing
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() != blob.digest:
                reason = f"{path} is not the segment: expected the SHA-256 {blob.digest}"
                raise Refused("bad_file", reason, "folder") from missing
            await blobs.put(data, blob.media)
            loaded += 1
    return {"folder": str(folder), "files": loaded}
