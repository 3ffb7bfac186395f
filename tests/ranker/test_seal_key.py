"""After a restore an audit is clean: with the old seal key, or with a recorded new one."""

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ranker.export.backup import ACCOUNTS, export_log, import_log, manifest_path
from ranker.settings import Settings
from shared.errors import Refused
from shared.signing import load_key, public_key
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_export import Places, command, fill, logging_to, places, platform, rank
from tests.support.servers import SharedNats, prepared_database

__all__ = ("places", "platform")
pytestmark = [pytest.mark.long, pytest.mark.server]
ACTOR = "operator:op"


@pytest.fixture
async def backup(places: Places, platform: AuditPlatform) -> Path:
    """A backup of a sealed log, on a platform that keeps its key."""
    await fill(places, platform)
    file = places.folder / "log.gz"
    summary = await export_log(places.old, file, "stream")
    assert summary["seal_key"] == str(places.old.seal_key)
    assert json.loads(manifest_path(file).read_bytes())["seal_key"] == str(places.old.seal_key)
    return file


@pytest.fixture
def elsewhere(places: Places) -> Settings:
    """The new platform on a machine that does not have the old key."""
    return replace(places.new, seal_key=places.folder / "new" / "seal.key")


async def audit(settings: Settings, *options: str) -> dict[str, Any]:
    """Fold the restored log and audit it."""
    async with logging_to(settings.nats_url) as (log, _):
        await rank(log, settings.postgres_dsn)
    _, report = await command(settings, "audit", "identity", "CPU", "--json", *options)
    assert isinstance(report, dict), report
    assert report["seals"] > 0
    return report


async def test_without_the_old_key_the_change_is_recorded_and_the_audit_accepts_both(
    places: Places, elsewhere: Settings, backup: Path
) -> None:
    result = await import_log(elsewhere, backup, ACTOR)
    old, new = (
        public_key(load_key(key)) for key in (places.old.seal_key, elsewhere.seal_key) if key
    )
    change = result["seal_key"]
    assert (change["is_change"], change["old_key"], change["new_key"]) == (True, old, new)
    assert change["old_path"] == str(places.old.seal_key)
    report = await audit(elsewhere)
    assert (report["is_clean"], report["findings"], report["keys"]) == (True, [], [new])
    (shown,) = report["key_changes"]
    assert shown["what"] == (
        f"seals up to event {result['events']} are signed with {old}, later ones with {new}"
    )
    code, scrubbed = await command(elsewhere, "scrub")
    assert (code, scrubbed["archive_findings"]) == (0, [])


async def test_a_second_restore_without_a_key_is_accepted_too(
    places: Places,
    elsewhere: Settings,
    backup: Path,
    shared_nats: SharedNats,
    postgres_server_dsn: str,
) -> None:
    await import_log(elsewhere, backup, ACTOR)
    again = places.folder / "again.gz"
    await export_log(elsewhere, again, "stream", [ACCOUNTS])
    code, report = await command(
        elsewhere, "audit", "identity", "CPU", "--json", "--file", str(again)
    )
    assert (code, len(report["key_changes"])) == (0, 1), report
    key = places.folder / "third" / "seal.key"
    with prepared_database(postgres_server_dsn) as dsn:
        nats_url = shared_nats.fresh_url()
        third = replace(places.new, nats_url=nats_url, postgres_dsn=dsn, seal_key=key)
        await import_log(third, again, ACTOR, is_incomplete_allowed=True)
        report = await audit(third)
    assert (report["is_clean"], len(report["key_changes"])) == (True, 2), report


async def test_with_the_old_key_nothing_changes(
    places: Places, elsewhere: Settings, backup: Path
) -> None:
    assert elsewhere.seal_key is not None
    assert places.old.seal_key is not None
    result = await import_log(elsewhere, backup, ACTOR, seal_key=places.old.seal_key)
    assert result["seal_key"]["is_change"] is False
    assert elsewhere.seal_key.read_bytes() == places.old.seal_key.read_bytes()
    assert stat.S_IMODE(elsewhere.seal_key.stat().st_mode) == 0o600
    report = await audit(elsewhere)
    assert (report["is_clean"], report["key_changes"]) == (True, [])


async def test_a_key_that_did_not_make_the_seals_is_refused_and_nothing_is_changed(
    places: Places, elsewhere: Settings, backup: Path
) -> None:
    wrong = places.folder / "wrong.key"
    load_key(wrong)
    with pytest.raises(Refused, match="the backup's seals were made with"):
        await import_log(elsewhere, backup, ACTOR, seal_key=wrong)
    with pytest.raises(Refused, match="there is no file"):
        await import_log(elsewhere, backup, ACTOR, seal_key=places.folder / "none.key")
    assert elsewhere.seal_key is not None
    load_key(elsewhere.seal_key)
    with pytest.raises(Refused, match="is another key"):
        await import_log(elsewhere, backup, ACTOR, seal_key=places.old.seal_key)
    async with logging_to(elsewhere.nats_url) as (log, _):
        assert await log.last() == 0
