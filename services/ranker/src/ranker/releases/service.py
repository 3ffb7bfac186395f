"""Builds releases: at a command, and at intervals if an operator wants it."""

import asyncio
import fcntl
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ranker.releases.builder import Dataset, build_release, load_dataset_key
from ranker.releases.lineage import VERSION
from ranker.releases.postgres import read_names
from shared.api.releases import Release
from shared.blobs import BlobStore
from shared.errors import Failed, Refused
from shared.event_log import EventSource, Gap

HOUR_S = 3600.0
_log = logging.getLogger(__name__)


def key_path(folder: Path) -> Path:
    """The key of a data set: beside its folder, so that a copy of the folder does not have it."""
    return folder.with_name(f"{folder.name}.key")


def signatures_path(folder: Path) -> Path:
    """The signatures of a data set's sources, also of those that no release has yet."""
    return folder.with_name(f"{folder.name}.signatures{VERSION}")


@contextmanager
def _alone(folder: Path) -> Iterator[bytes]:
    """Give the key of a data set that nobody else builds meanwhile. Raises Refused."""
    key = load_dataset_key(key_path(folder))
    with key_path(folder).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused("in_use", f"a release of {folder} is being built already") from error
        yield key


async def release(
    log: EventSource, blobs: BlobStore, dsn: str, folder: Path, licence: str
) -> Release:
    """Build the next release of an absolute folder. Raises Refused and Failed."""
    try:
        with _alone(folder) as key:
            names = await read_names(dsn)
            dataset = Dataset(folder, key, licence, names, signatures_path(folder))
            return await build_release(log, blobs, dataset)
    except Gap as gap:
        raise Failed(f"the log cannot be read: {gap}") from gap
    except OSError as error:
        raise Refused("bad_file", f"{folder} cannot be written: {error}", "folder") from error


async def release_regularly(build: Callable[[], Awaitable[Release]], every_h: float) -> None:
    """Build a release now and every so many hours, for ever; a failed one is tried next time."""
    while True:
        try:
            built = await build()
            _log.info("release %d has the log up to event %d", built.number, built.seq)
        except (Refused, Failed) as error:
            _log.warning("no release was built: %s", error)
        await asyncio.sleep(every_h * HOUR_S)
