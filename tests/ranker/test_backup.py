"""A backup is complete or lists what it lacks; damage is refused before anything changes."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from discord_edge.notifications.postgres import PostgresLedger
from ingest.ports import Note
from ingest.postgres import PostgresAccountStore
from ranker.blobs import check_blobs, find_blob_digests
from ranker.export.backup import ACCOUNTS, BLOBS, export_log, import_log, manifest_path, part_path
from ranker.export.postgres import AccountsCopy
from shared.errors import Refused
from shared.postgres import create_pool
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_export import Places, fill, followed, logging_to, places, platform
from tests.support.lives import Life

__all__ = ("places", "platform")
pytestmark = [pytest.mark.long, pytest.mark.server]

ACTOR = "operator:op"
ENDS = (".blobs.tar", ".accounts.tar.gz", ".manifest.json")


def mode_of(path: Path) -> int:
    """The permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
async def backup(places: Places, platform: AuditPlatform) -> Path:
    """A backup of a platform with a participant, blobs and events."""
    async with logging_to(places.old.nats_url) as (_, blobs):
        for text in (b"a" * 70_000, b"b" * 70_000):
            blob = await blobs.put(text)
            await platform.live(Life(f"s-{text[:1].decode()}", "linus", 75.0, artefact=blob))
    await fill(places, platform)
    async with create_pool(places.old.postgres_dsn, 1, 2) as connections:
        people = PostgresAccountStore(connections)
        account = await people.open_account("ada")
        await people.begin_notes(account, ["s1"], Note("a tab\there and a line\nend", "x"))
        await people.open_account("grace")
    file = places.folder / "log.gz"
    summary = await export_log(places.old, file, "stream")
    assert (summary["blobs"], summary["participants"], summary["left_out"]) == (2, 2, [])
    return file


async def is_untouched(places: Places) -> bool:
    """Whether nothing was written to the new platform."""
    async with logging_to(places.new.nats_url) as (log, _):
        has_events = await log.last() > 0
    with psycopg.connect(places.new.postgres_dsn) as connection:
        row = connection.execute("select count(*) from accounts.participant").fetchone()
    return not has_events and row == (0,)


async def test_everything_is_in_a_backup_unless_it_is_left_out(
    places: Places, backup: Path
) -> None:
    assert stat.S_IMODE(part_path(backup, ACCOUNTS).stat().st_mode) == 0o600
    result = await import_log(places.new, backup, ACTOR)
    assert (result["blobs"], result["participants"]) == (2, 2)
    # The sources of this small platform were never in a store, and the manifest says so.
    manifest = json.loads(manifest_path(backup).read_bytes())
    assert (result["lacking"], result["blobs_missing"]) == ([], sorted(manifest["blobs_missing"]))
    rows = "select name, note, tag from accounts.participant left join accounts.submission_note"
    rows += " using (account) order by name"
    contents = []
    for dsn in (places.old.postgres_dsn, places.new.postgres_dsn):
        with psycopg.connect(dsn) as connection:
            contents.append(connection.execute(rows.encode()).fetchall())
    assert contents[0] == contents[1]
    assert contents[0] == [("ada", "a tab\there and a line\nend", "x"), ("grace", None, None)]
    async with create_pool(places.new.postgres_dsn, 1, 2) as connections:
        people = PostgresAccountStore(connections)
        assert await people.find_account("ada")


async def test_only_their_owner_reads_the_files_of_a_backup(places: Places, backup: Path) -> None:
    folder = places.folder / "new" / "daily"
    files = [folder / name for name in ("log.gz", *(f"log.gz{end}" for end in ENDS))]
    before = os.umask(0)
    try:
        await export_log(places.old, folder / "log.gz", "stream")
        # What a version before left behind: old files, and halves of an interrupted backup.
        for file in files:
            file.chmod(0o666)
            half, other_name = file.with_name(f"{file.name}.part"), file.with_name(f"{file.name}.o")
            half.write_bytes(b"half")
            other_name.hardlink_to(half)
        summary = await export_log(places.old, folder / "log.gz", "stream")
    finally:
        os.umask(before)
    assert [mode_of(file) for file in files] == [0o600] * len(files)
    assert [file.with_name(f"{file.name}.o").read_bytes() for file in files] == [b"half"] * 4
    assert (mode_of(folder), mode_of(folder.parent)) == (0o700, 0o700)
    assert summary["is_folder_open"] is False
    assert sorted(backup.parent.glob("*.part")) == []


@pytest.mark.usefixtures("backup")
async def test_a_folder_that_is_there_is_closed_if_it_is_empty_and_told_of_otherwise(
    places: Places,
) -> None:
    empty, used = places.folder / "empty", places.folder / "used"
    for folder in (empty, used):
        folder.mkdir()
        folder.chmod(0o755)
    (used / "other.txt").write_text("of somebody else")
    summary = await export_log(places.old, empty / "log.gz", "stream", [BLOBS, ACCOUNTS])
    assert (mode_of(empty), summary["is_folder_open"]) == (0o700, False)
    summary = await export_log(places.old, used / "log.gz", "stream", [BLOBS, ACCOUNTS])
    assert (mode_of(used), summary["is_folder_open"]) == (0o755, True)
    assert mode_of(used / "log.gz") == mode_of(manifest_path(used / "log.gz")) == 0o600


async def test_a_restore_that_was_broken_off_goes_on(places: Places, backup: Path) -> None:
    await AccountsCopy(part_path(backup, ACCOUNTS)).load(places.new.postgres_dsn, 1)
    with psycopg.connect(places.new.postgres_dsn) as connection:
        connection.execute("update accounts.register set written_at = now()")
    result = await import_log(places.new, backup, ACTOR)
    assert (result["participants"], result["stored"]) == (2, result["events"])


async def test_what_was_left_out_is_recorded_and_asked_for(places: Places, backup: Path) -> None:
    missing = json.loads(manifest_path(backup).read_bytes())["blobs_missing"]
    summary = await export_log(places.old, backup, "stream", [BLOBS])
    assert summary["left_out"] == [BLOBS]
    assert json.loads(manifest_path(backup).read_bytes())["left_out"] == [BLOBS]
    with pytest.raises(Refused, match=r"it lacks: blobs \(left out when it was made\)"):
        await import_log(places.new, backup, ACTOR)
    assert await is_untouched(places)
    result = await import_log(places.new, backup, ACTOR, is_incomplete_allowed=True)
    assert result["lacking"] == ["blobs (left out when it was made)"]
    assert len(result["blobs_missing"]) == len(missing) + 2


@pytest.mark.parametrize("part", [BLOBS, ACCOUNTS])
async def test_a_file_that_was_lost_is_named(places: Places, backup: Path, part: str) -> None:
    part_path(backup, part).unlink()
    with pytest.raises(Refused, match=rf"it lacks: {part} \(there is no file"):
        await import_log(places.new, backup, ACTOR)
    assert await is_untouched(places)


def cut_off(path: Path) -> None:
    """Cut a tar at a member boundary, where tar reads on without an error."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 // 512 * 512])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("part", ["log", BLOBS, ACCOUNTS])
@pytest.mark.parametrize("damage", [cut_off, flip])
async def test_what_is_damaged_is_refused_and_nothing_is_changed(
    places: Places, backup: Path, part: str, damage: Callable[[Path], None]
) -> None:
    damage(part_path(backup, part))
    for is_allowed in (False, True):
        with pytest.raises(Refused) as refused:
            await import_log(places.new, backup, ACTOR, is_incomplete_allowed=is_allowed)
        assert refused.value.code == "bad_backup"
    assert await is_untouched(places)


async def test_without_a_manifest_a_tar_that_was_cut_off_is_refused(
    places: Places, backup: Path
) -> None:
    manifest_path(backup).unlink()
    tar = part_path(backup, BLOBS)
    data = tar.read_bytes()
    assert len(check_blobs(tar)) == 2
    # Behind the first blob: a header of 512 bytes and 70,000 of data in blocks of 512.
    tar.write_bytes(data[: 512 + 137 * 512])
    with pytest.raises(Refused, match="was cut off after 1 blobs"):
        await import_log(places.new, backup, ACTOR, is_incomplete_allowed=True)
    assert await is_untouched(places)
    tar.write_bytes(data)
    result = await import_log(places.new, backup, ACTOR, is_incomplete_allowed=True)
    assert (result["blobs"], result["participants"]) == (2, 2)


async def test_participants_of_another_platform_are_not_overwritten(
    places: Places, backup: Path
) -> None:
    async with create_pool(places.new.postgres_dsn, 1, 2) as connections:
        await PostgresAccountStore(connections).open_account("somebody")
    with pytest.raises(Refused, match="1 participants that are not the backup's"):
        await import_log(places.new, backup, ACTOR)
    async with logging_to(places.new.nats_url) as (log, _):
        assert await log.last() == 0


async def test_the_next_delivery_has_a_number_of_its_own(places: Places, backup: Path) -> None:
    webhook = (
        "insert into accounts.webhook (webhook, account, url, secret, kinds, problems)"
        " select 'w', account, 'u', 's', '{}', '{}' from accounts.participant limit 1"
    )
    delivery = (
        "insert into accounts.webhook_delivery (webhook, event, kind, problem, data, at)"
        " values ('w', %s, 'k', 'p', '{}', now()) returning delivery"
    )
    with psycopg.connect(places.old.postgres_dsn) as connection:
        connection.execute(webhook)
        for event in "abc":
            connection.execute(delivery.encode(), [event])
    await export_log(places.old, backup, "stream")
    await import_log(places.new, backup, ACTOR)
    with psycopg.connect(places.new.postgres_dsn) as connection:
        assert connection.execute(delivery.encode(), ["d"]).fetchone() == (4,)


async def test_every_event_is_there_after_a_restore(
    places: Places, backup: Path, platform: AuditPlatform
) -> None:
    await import_log(places.new, backup, ACTOR)
    stored = [(event.seq, event.body) for event in platform.log.since(0)]
    async with logging_to(places.new.nats_url) as (log, blobs):
        assert await followed(log, len(stored)) == stored
        digests = {
            digest
            for event in platform.log.since(0)
            for digest in find_blob_digests(event.envelope)
        }
        contents = [
            await blobs.get(digest) for digest in sorted(check_blobs(part_path(backup, BLOBS)))
        ]
    assert len(contents) == 2
    assert len(digests) >= 2


async def test_the_threads_on_discord_are_in_a_backup(places: Places, backup: Path) -> None:
    async with create_pool(places.old.postgres_dsn, 1, 1, "discord_edge") as connections:
        await PostgresLedger(connections).keep("announcements", "123")
    await export_log(places.old, backup, "stream")
    await import_log(places.new, backup, ACTOR)
    async with create_pool(places.new.postgres_dsn, 1, 1, "discord_edge") as connections:
        assert await PostgresLedger(connections).made("announcements") == "123"
