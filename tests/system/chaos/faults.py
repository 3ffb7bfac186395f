"""Servers that run and store nothing: a full disk, a Postgres that may only be read."""

import asyncio
import contextlib
import os
import time
from pathlib import Path

import psycopg

# Enough for an hour of chaos; the rest of it is what a strike fills.
DISK_MIB = 512
FILLER = "filler"
UNDO_S_MAX = 60.0
UNDO_PAUSE_S = 0.5
# What a session must say to change the setting while the setting is on.
MAY_WRITE = "-c default_transaction_read_only=off"


async def fill(folder: Path, for_s: float) -> None:
    """Leave no byte free on a small disk for a while."""
    filler = folder / FILLER
    try:
        with filler.open("wb") as file:
            until = time.monotonic() + for_s
            while time.monotonic() < until:
                free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
                with contextlib.suppress(OSError):
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free or 1)
                await asyncio.sleep(0.05)
    finally:
        filler.unlink()


async def keep_from_writing(dsn: str, for_s: float) -> None:
    """Let Postgres be read only for a while, as one is that failed over."""
    try:
        await _set_read_only(dsn, "on")
    except psycopg.Error:
        return
    try:
        await asyncio.sleep(for_s)
    finally:
        await _make_writable(dsn)


async def _make_writable(dsn: str) -> None:
    until = time.monotonic() + UNDO_S_MAX
    while True:
        try:
            await _set_read_only(dsn, "off")
        except psycopg.Error:
            # Something else struck it meanwhile.
            if time.monotonic() > until:
                raise
            await asyncio.sleep(UNDO_PAUSE_S)
        else:
            return


async def _set_read_only(dsn: str, value: str) -> None:
    async with await psycopg.AsyncConnection.connect(
        dsn, autocommit=True, connect_timeout=5, options=MAY_WRITE
    ) as connection:
        setting = "alter system set default_transaction_read_only = "
        await connection.execute(f"{setting}{value}".encode())
        await connection.execute(b"select pg_reload_conf()")
