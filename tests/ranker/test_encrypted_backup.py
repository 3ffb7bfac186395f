"""An encrypted backup: who can restore it, what is refused, and how long it is kept."""

import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyrage
import pytest

from ranker.export.age import make_identity, parse_recipient
from ranker.export.backup import import_log
from ranker.export.encrypted import (
    METRIC,
    Retention,
    extract_all,
    make_encrypted_backup,
    open_backup,
    remove_old,
)
from shared.errors import Refused
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_export import Places, command, fill, places, platform

__all__ = ("places", "platform")
pytestmark = [pytest.mark.long, pytest.mark.server]
ACTOR = "operator:op"


@pytest.fixture
async def backup(places: Places, platform: AuditPlatform) -> Path:
    """An encrypted backup of a platform with events."""
    await fill(places, platform)
    recipient = make_identity(places.folder / "identity.txt")
    metrics = places.folder / "backup.prom"
    summary = await make_encrypted_backup(
        places.old, places.folder / "backups", recipient, Retention(), metrics
    )
    lines = metrics.read_text().splitlines()
    assert lines[-1].startswith(f"{METRIC} "), lines
    assert abs(float(lines[-1].split()[1]) - datetime.now(UTC).timestamp()) < 60
    return Path(summary["file"])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_nothing_beside_the_encrypted_file_is_left(backup: Path) -> None:
    assert names(backup.parent) == [backup.name]
    assert (backup.stat().st_mode & 0o777, backup.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert backup.read_bytes().startswith(b"age-encryption.org/v1")
    assert b"SubmissionReceived" not in backup.read_bytes()


async def test_its_identity_restores_everything_and_the_seal_key(
    places: Places, backup: Path
) -> None:
    assert places.old.seal_key is not None
    elsewhere = replace(places.new, seal_key=places.folder / "new" / "seal.key")
    with open_backup(backup, places.folder / "identity.txt") as opened:
        result = await import_log(elsewhere, opened.log, ACTOR, seal_key=opened.seal_key)
        folder = opened.log.parent
    assert not folder.exists()
    assert (result["lacking"], result["participants"]) == ([], 0)
    assert elsewhere.seal_key is not None
    assert elsewhere.seal_key.read_bytes() == places.old.seal_key.read_bytes()


def cut(blob: bytes) -> bytes:
    return blob[:-100]


def flip(blob: bytes) -> bytes:
    middle = len(blob) // 2
    return blob[:middle] + bytes([blob[middle] ^ 1]) + blob[middle + 1 :]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (cut, "is damaged: it was cut off or changed"),
        (flip, "is damaged: it was cut off or changed"),
        (lambda blob: blob[:100], "is damaged"),
        (lambda blob: b"x" + blob, "is not an encrypted backup"),
    ],
)
def test_a_damaged_file_is_refused(
    places: Places, backup: Path, change: Callable[[bytes], bytes], reason: str
) -> None:
    backup.write_bytes(change(backup.read_bytes()))
    with pytest.raises(Refused, match=reason), open_backup(backup, places.folder / "identity.txt"):
        pytest.fail("it was opened")


def test_another_identity_opens_nothing(places: Places, backup: Path) -> None:
    other = places.folder / "other.txt"
    make_identity(other)
    for identity, reason in (
        (other, "was encrypted for another key"),
        (None, "is encrypted: name the file with its secret key"),
        (places.folder / "none.txt", "is not the secret key of backups"),
        (backup, "is not the secret key of backups"),
    ):
        with pytest.raises(Refused, match=reason), open_backup(backup, identity):
            pytest.fail("it was opened")
    with pytest.raises(Refused, match=r"identity\.txt exists: name a new file"):
        make_identity(places.folder / "identity.txt")
    with pytest.raises(Refused, match="expected a public key such as age1"):
        parse_recipient("age1nobody")


async def test_an_encrypted_set_that_lacks_a_file_is_refused(places: Places, backup: Path) -> None:
    identity = places.folder / "identity.txt"
    with open_backup(backup, identity) as opened:
        tar_file = places.folder / "less.tar"
        with tarfile.open(tar_file, "w") as tar:
            for path in sorted(opened.log.parent.iterdir()):
                if not path.name.endswith(".blobs.tar"):
                    tar.add(path, path.name)
    recipient = parse_recipient(identity.read_text().split()[3])
    pyrage.encrypt_file(str(tar_file), str(backup), [recipient])
    with (
        open_backup(backup, identity) as opened,
        pytest.raises(Refused, match="the backup is incomplete, it lacks: blobs"),
    ):
        await import_log(places.new, opened.log, ACTOR)


async def test_the_command_keeps_what_retention_says(places: Places, backup: Path) -> None:
    recipient = (places.folder / "identity.txt").read_text().split()[3]
    other = backup.with_name("other.txt")
    other.write_text("of somebody else")
    words = ("backup", str(backup.parent), "--recipient", recipient, "--keep-daily", "1")
    old = backup.with_name("warpboard-20200101T000000Z.age")
    old.write_bytes(b"old")
    code, summary = await command(places.old, *words, "--keep-weekly", "0", "--keep-monthly", "0")
    assert code == 0
    assert old.name in summary["removed"]
    assert names(backup.parent)[0] == "other.txt"
    assert len(names(backup.parent)) == 2


def test_the_newest_of_each_day_week_and_month_is_kept(tmp_path: Path) -> None:
    instant = datetime(2026, 11, 30, 12, tzinfo=UTC)
    for hours in range(0, 24 * 400, 12):
        at = instant - timedelta(hours=hours)
        (tmp_path / f"warpboard-{at:%Y%m%dT%H%M%SZ}.age").write_bytes(b"")
    remove_old(tmp_path, Retention(daily=3, weekly=2, monthly=4))
    assert names(tmp_path) == [
        "warpboard-20260831T120000Z.age",
        "warpboard-20260930T120000Z.age",
        "warpboard-20261031T120000Z.age",
        "warpboard-20261128T120000Z.age",
        "warpboard-20261129T120000Z.age",
        "warpboard-20261130T120000Z.age",
    ]
    assert remove_old(tmp_path, Retention(daily=3, weekly=2, monthly=4)) == []


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside"])
def test_a_tar_file_that_leads_outside_is_not_extracted(tmp_path: Path, name: str) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    data.seek(0)
    with tarfile.open(fileobj=data) as tar, pytest.raises(tarfile.TarError, match="outside"):
        extract_all(tar, tmp_path / "inside")
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_a_tar_file_is_not_extracted(tmp_path: Path) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(link)
    data.seek(0)
    with (
        tarfile.open(fileobj=data) as tar,
        pytest.raises(tarfile.TarError, match="link is no file"),
    ):
        extract_all(tar, tmp_path)
