"""Postgres goes back to an instant, and the log to the event that its archive had then."""

import asyncio
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from ranker.export import wal
from ranker.export.age import make_identity
from ranker.settings import Settings
from shared.errors import Refused
from shared.event_log import NewEvent
from shared.wire import Envelope
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_export import NOWHERE, command, logging_to, platform, rank
from tests.support.postgres import NetworkPostgres
from tests.support.servers import SharedNats, skip_without_postgres
from tests.support.waits import eventually

__all__ = ("platform",)
pytestmark = [pytest.mark.long, pytest.mark.server]
ADD = "insert into accounts.participant (account, name) values (%s, %s)"


def archived(dsn: str) -> bool:
    """Finish the current segment, and return once it is archived."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("select pg_walfile_name(pg_switch_wal())").fetchone()
        assert row is not None
        query = "select last_archived_wal >= %s from pg_stat_archiver"
        for _ in range(600):
            done = connection.execute(query, [row[0]]).fetchone()
            if done == (True,):
                return True
            connection.execute("select pg_sleep(0.1)")
    return False


async def test_log_and_tables_go_back_to_one_instant(
    shared_nats: SharedNats, platform: AuditPlatform, tmp_path: Path
) -> None:
    skip_without_postgres()
    identity, folder = tmp_path / "identity.txt", tmp_path / "archive"
    recipient = make_identity(identity)
    words = (sys.executable, "-P", "-m", "ranker.export.wal", "archive", "%p", str(folder))
    primary = NetworkPostgres(
        tmp_path / "primary",
        archive_mode="on",
        archive_command=shlex.join([*words, "--recipient", recipient]),
    )
    events = [event.envelope for event in platform.log.since(0)]
    half = len(events) // 2
    try:
        primary.start()
        dsn = primary.dsn_at()
        url, key = shared_nats.fresh_url(), tmp_path / "key"
        settings = Settings(dsn, NOWHERE, NOWHERE, "k" * 16, nats_url=url, seal_key=key)
        async with logging_to(settings.nats_url) as (log, _):
            for envelope in events[:half]:
                await log.append(NewEvent(envelope, None))
            await rank(log, dsn)
            program = str(primary.binaries / "pg_basebackup")
            base = await asyncio.to_thread(wal.write_base, dsn, folder, recipient, program)
            with psycopg.connect(dsn) as connection:
                connection.execute(ADD, ["a", "before"])
            instant = datetime.now(UTC)
            await asyncio.sleep(0.01)
            for envelope in events[half:]:
                await log.append(NewEvent(envelope, None))
            await rank(log, dsn)
        with psycopg.connect(dsn) as connection:
            connection.execute(ADD, ["b", "after"])
        assert archived(dsn)
        password = (primary.folder / "password").read_text()
    finally:
        primary.stop()
    shutil.rmtree(primary.folder)
    recovery = Recovery(base, folder, identity, password)
    await check_recovery(recovery, instant, settings, shared_nats.fresh_url(), events[:half])


class Recovery(NamedTuple):
    """A base backup, the folder of its segments, their secret key, and Postgres's password."""

    base: Path
    segments: Path
    identity: Path
    password: str


async def check_recovery(
    recovery: Recovery,
    instant: datetime,
    settings: Settings,
    nats_url: str,
    events: Sequence[Envelope],
) -> None:
    """Recover to an instant on other paths, and the log from the archive; compare both."""
    tmp_path = recovery.segments.parent
    restored = NetworkPostgres(tmp_path / "restored")
    restored.folder.mkdir()
    recovered = (recovery.base, restored.data, recovery.segments, recovery.identity)
    (restored.folder / "password").write_text(recovery.password)
    wal.open_base(*recovered, instant)
    with pytest.raises(Refused, match="is not empty: name a new folder"):
        wal.open_base(*recovered, instant)
    try:
        restored.start()
        dsn = restored.dsn_at()

        def has_recovered() -> bool:
            with psycopg.connect(dsn) as connection:
                return connection.execute("select pg_is_in_recovery()").fetchone() == (False,)

        await eventually(has_recovered)
        with psycopg.connect(dsn) as connection:
            names = connection.execute("select name from accounts.participant").fetchall()
        assert names == [("before",)]
        new = replace(settings, nats_url=nats_url, postgres_dsn=dsn)
        code, summary = await command(new, "repair", str(tmp_path / "log.gz"))
        assert code == 0, summary
        async with logging_to(new.nats_url) as (log, _):
            feed = log.follow(0)
            stored = [event.envelope.id for event in await feed.take()]
            await feed.close()
        # The last event says where they came from.
        assert stored[:-1] == [envelope.id for envelope in events]
    finally:
        restored.stop()


def test_a_segment_of_another_server_is_not_overwritten(tmp_path: Path) -> None:
    identity, folder = tmp_path / "identity.txt", tmp_path / "archive"
    recipient = make_identity(identity)
    segment = tmp_path / "000000010000000000000001"
    segment.write_bytes(b"one")
    wal.archive_segment(segment, folder, recipient)
    wal.archive_segment(segment, folder, recipient)
    segment.write_bytes(b"another")
    with pytest.raises(Refused, match="is another segment: is the folder that of another"):
        wal.archive_segment(segment, folder, recipient)
    target = tmp_path / "out"
    assert wal.restore_segment(segment.name, folder, target, identity)
    assert target.read_bytes() == b"one"
    assert not wal.restore_segment("000000010000000000000002", folder, target, identity)
