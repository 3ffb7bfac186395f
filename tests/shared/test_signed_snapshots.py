"""Snapshots are accepted only if the service's own user signed them."""

from pathlib import Path

import msgspec
import pytest

from shared.bus_keys.authority import Authority
from shared.bus_keys.login import BusLogin
from shared.signed_snapshots import SignedSnapshots
from tests.support.memory import MemorySnapshots

DATA, OTHER = b"who is an operator", b"who would like to be one"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path / "keys")
    made.create()
    return made


def login(authority: Authority, user: str) -> BusLogin:
    return BusLogin("nats://127.0.0.1:1", str(authority.credentials_path(user)))


async def test_a_service_loads_what_it_saved_also_with_a_new_key(authority: Authority) -> None:
    snapshots = SignedSnapshots(MemorySnapshots(), login(authority, "ingest"))
    assert await snapshots.load("access") is None
    await snapshots.save("access", DATA)
    assert await snapshots.load("access") == DATA
    authority.replace("ingest")
    assert await snapshots.load("access") == DATA


@pytest.mark.parametrize("user", ["scheduler", "maintenance"])
async def test_what_another_user_signed_is_ignored(authority: Authority, user: str) -> None:
    store = MemorySnapshots()
    await SignedSnapshots(store, login(authority, user)).save("access", OTHER)
    assert await SignedSnapshots(store, login(authority, "ingest")).load("access") is None


async def test_what_a_user_of_another_operator_signed_is_ignored(
    authority: Authority, tmp_path: Path
) -> None:
    stranger, store = Authority(tmp_path / "other"), MemorySnapshots()
    stranger.create()
    await SignedSnapshots(store, login(stranger, "ingest")).save("access", OTHER)
    assert await SignedSnapshots(store, login(authority, "ingest")).load("access") is None


async def test_a_snapshot_is_not_accepted_under_another_name(authority: Authority) -> None:
    store = MemorySnapshots()
    snapshots = SignedSnapshots(store, login(authority, "ingest"))
    await snapshots.save("older", DATA)
    saved = await store.load("older")
    assert saved is not None
    await store.save("access", saved)
    assert await snapshots.load("access") is None


@pytest.mark.parametrize("place", [0, 1, 2], ids=["jwt", "signature", "data"])
async def test_a_snapshot_that_was_changed_is_ignored(authority: Authority, place: int) -> None:
    store = MemorySnapshots()
    snapshots = SignedSnapshots(store, login(authority, "ingest"))
    await snapshots.save("access", DATA)
    saved = await store.load("access")
    assert saved is not None
    parts = msgspec.msgpack.decode(saved)
    jwt, signature, _ = parts
    header, body, signed = jwt.split(".")
    changes = (f"{header}.{body}.{signed[:-4]}AAAA", bytes(len(signature)), OTHER)
    parts[place] = changes[place]
    await store.save("access", msgspec.msgpack.encode(parts))
    assert await snapshots.load("access") is None


@pytest.mark.parametrize("saved", [DATA, b"", msgspec.msgpack.encode(["a.b.c", b"", DATA])])
async def test_what_nobody_signed_is_ignored(authority: Authority, saved: bytes) -> None:
    store = MemorySnapshots()
    await store.save("access", saved)
    assert await SignedSnapshots(store, login(authority, "ingest")).load("access") is None


async def test_servers_without_accounts_have_snapshots_without_signatures() -> None:
    store = MemorySnapshots()
    snapshots = SignedSnapshots(store, BusLogin("nats://127.0.0.1:1"))
    await snapshots.save("access", DATA)
    assert await store.load("access") == await snapshots.load("access") == DATA
