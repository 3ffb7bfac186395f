"""Contract of ingest's account tables, webhooks and keys, in memory and in Postgres."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import ingest.postgres
from ingest.ports import (
    LOST_AFTER_S,
    REPEATS_KEPT_S,
    AccountStore,
    IdempotentRequest,
    Identity,
    NewWebhook,
    Note,
    TokenRow,
)
from ingest.postgres import PostgresAccountStore, PostgresIdempotencyStore
from shared.clock import new_id, now
from shared.errors import Refused
from shared.postgres import POOL_WAITING_MAX, create_pool
from tests.support.door import Stores, postgres_stores
from tests.support.memory_stores import MemoryAccountStore, MemoryIdempotencyStore

S = timedelta(seconds=1)
AnyRepeats = MemoryIdempotencyStore | PostgresIdempotencyStore
WISH = NewWebhook("https://hooks.example.org/in", ["submission.ended"], ["copy"], "wbhook_x")
NUMBER_MAX = 2**62


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.server)])
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    if request.param == "memory":
        yield Stores()
        return
    async with postgres_stores(request.getfixturevalue("postgres_dsn")) as stores:
        yield stores


@pytest.fixture
def people(stores: Stores) -> AccountStore:
    return stores.people


@pytest.fixture
def repeats(stores: Stores) -> AnyRepeats:
    assert isinstance(stores.repeats, MemoryIdempotencyStore | PostgresIdempotencyStore)
    return stores.repeats


async def test_a_name_has_one_account(people: AccountStore) -> None:
    assert await people.find_account("ada") is None
    ada = await people.open_account("ada")
    assert await people.open_account("ada") == ada == await people.find_account("ada")
    assert (await people.name_of(ada), await people.name_of("nobody")) == ("ada", None)
    assert await people.names_of([ada, "nobody"]) == {ada: "ada"}


async def test_names_come_in_pages_ordered_by_account(people: AccountStore) -> None:
    pairs = sorted([(await people.open_account(name), name) for name in ("ada", "grace", "joan")])
    assert list(await people.names("", 2)) == pairs[:2]
    assert list(await people.names(pairs[1][0], 2)) == pairs[2:]


async def test_a_renamed_account_keeps_its_former_name(people: AccountStore) -> None:
    ada, grace = [await people.open_account(name) for name in ("ada", "grace")]
    assert await people.rename(ada, "lovelace")
    assert await people.find_account("ada") == await people.find_account("lovelace") == ada
    assert await people.open_account("ada") == ada
    assert not await people.rename(grace, "ada")
    assert not await people.rename(grace, "lovelace")
    assert await people.rename(ada, "ada")
    assert await people.find_account("lovelace") == ada
    assert await people.name_of(ada) == "ada"


async def test_a_rename_moves_the_web_identity(people: AccountStore) -> None:
    ada = await people.open_account("ada")
    await people.add_identity(Identity("i1", "web", "ada", ada))
    await people.add_identity(Identity("i2", "github", "ada", ada))
    await people.rename(ada, "lovelace")
    assert await people.identity_of("web", "ada") is None
    web, github = [
        await people.identity_of(*key) for key in (("web", "lovelace"), ("github", "ada"))
    ]
    assert web
    assert github
    assert (web.id, github.id) == ("i1", "i2")


async def test_all_names_that_people_have_or_had_are_listed(people: AccountStore) -> None:
    account = await people.open_account("ada")
    await people.rename(account, "ada2")
    await people.add_identity(Identity("i9", "discord", "12345678901234567", account))
    assert {"ada", "ada2", "12345678901234567"} <= set(await people.personal_names())


async def test_an_identity_belongs_to_one_participant(people: AccountStore) -> None:
    ada, grace = [await people.open_account(name) for name in ("ada", "grace")]
    assert await people.add_identity(Identity("i1", "github", "7", ada))
    assert not await people.add_identity(Identity("i2", "github", "7", grace))
    assert await people.add_identity(Identity("i3", "discord", "7", ada))
    assert [identity.id for identity in await people.identities(ada)] == ["i1", "i3"]
    assert all(identity.linked_at for identity in await people.identities(ada))
    for _ in range(2):
        await people.remove_identity("i1")
    assert await people.identity_of("github", "7") is None


async def test_a_token_was_last_used_at_the_latest_time(people: AccountStore) -> None:
    ada = await people.open_account("ada")
    for token in ("t1", "t2"):
        await people.add_token(TokenRow(token, ada, f"the {token}", "wb_1"))
    await people.add_token(TokenRow("t1", ada, "another name", "wb_2"))
    at = now()
    await people.record_usage({"t1": at, "unknown": at})
    await people.record_usage({"t1": at - S})
    newest, oldest = await people.tokens(ada)
    assert (newest.token, newest.last_used_at) == ("t2", None)
    assert oldest == TokenRow("t1", ada, "the t1", "wb_1", at)


async def test_codes_are_found_by_invite(people: AccountStore) -> None:
    await people.add_invites({"i1": "c1", "i2": "c2"})
    assert await people.codes(["i2", "i3"]) == {"i2": "c2"}


async def test_the_first_note_stays_until_it_is_replaced(stores: Stores) -> None:
    people = stores.people
    ada = await people.open_account("ada")
    await people.begin_notes(ada, ["s1", "s2"], Note("one", "v1"))
    await people.begin_notes(ada, ["s1"], Note("two"))
    await people.set_note(ada, "s2", Note())
    await people.set_note(ada, "s3", Note("new"))
    assert await notes(stores) == {"s1": ("one", "v1"), "s2": (None, None), "s3": ("new", None)}


async def notes(stores: Stores) -> dict[str, tuple[str | None, str | None]]:
    if isinstance(stores.people, MemoryAccountStore):
        return {key: (note.note, note.tag) for key, note in stores.people.notes.items()}
    async with stores.pool.connection() as connection:
        cursor = await connection.execute(
            b"select submission, note, tag from accounts.submission_note"
        )
        return {key: (note, tag) for key, note, tag in await cursor.fetchall()}


async def test_a_webhook_is_listed_once_it_is_in_the_log(stores: Stores) -> None:
    hooks, ada = stores.webhooks, await stores.people.open_account("ada")
    assert await hooks.add(ada, "h1", WISH, 2)
    assert await hooks.add(ada, "h2", WISH, 2)
    assert not await hooks.add(ada, "h3", WISH, 2)
    assert list(await hooks.listed(ada)) == []
    await hooks.keep("h2", 5)
    await hooks.keep("h1", 9)
    rows = await hooks.listed(ada)
    assert [row.id for row in rows] == ["h2", "h1"]
    assert (rows[0].url, rows[0].events, rows[0].problems) == (WISH.url, WISH.kinds, WISH.problems)
    assert (rows[0].state, rows[0].off_at, rows[0].notice) == ("on", None, None)
    for _ in range(2):
        await hooks.forget("h2")
    assert [row.id for row in await hooks.listed(ada)] == ["h1"]


async def test_test_deliveries_come_newest_first_in_pages(stores: Stores) -> None:
    hooks, ada = stores.webhooks, await stores.people.open_account("ada")
    for id_ in ("h1", "h2"):
        await hooks.add(ada, id_, WISH, 2)
    for event in ("e1", "e2", "e3"):
        await hooks.test("h1", event)
    await hooks.test("h2", "e4")
    newest, older = await hooks.deliveries("h1", NUMBER_MAX, 2)
    assert (newest.event_id, older.event_id) == ("e3", "e2")
    assert (newest.type, newest.state, newest.tries) == ("test", "pending", 0)
    assert (newest.tried_at, newest.took_ms, newest.status, newest.error) == (None,) * 4
    assert newest.next_at is not None
    (first,) = await hooks.deliveries("h1", older.number, 2)
    assert first.event_id == "e1"


def asked() -> IdempotentRequest:
    return IdempotentRequest("account:a", "/v1/tokens", "k1", "h", now())


async def test_who_began_and_is_gone_makes_room_after_a_minute(repeats: AnyRepeats) -> None:
    first = asked()
    assert await repeats.begin(first) is None
    soon = first._replace(at=first.at + S * LOST_AFTER_S / 2)
    assert (await repeats.begin(soon)) == ("h", None, b"")
    later = first._replace(at=first.at + S * (LOST_AFTER_S + 1))
    assert await repeats.begin(later) is None
    # Who was thought gone and comes back changes nothing of what the next one does.
    await repeats.keep(first, 201, b"old")
    await repeats.forget(first)
    await repeats.keep(later, 201, b"new")
    assert (await repeats.begin(later)) == ("h", 201, b"new")


async def test_an_answer_is_kept_for_a_day(repeats: AnyRepeats) -> None:
    first = asked()
    await repeats.begin(first)
    await repeats.keep(first, 201, b"{}")
    await repeats.purge(first.at + S * (REPEATS_KEPT_S - 60))
    tomorrow = first._replace(at=first.at + S * (REPEATS_KEPT_S + 60))
    assert (await repeats.begin(first._replace(at=first.at + S * LOST_AFTER_S * 2))) is not None
    await repeats.purge(tomorrow.at)
    assert await repeats.begin(tomorrow) is None


async def test_a_request_that_did_nothing_frees_its_key(repeats: AnyRepeats) -> None:
    first = asked()
    await repeats.begin(first)
    await repeats.forget(first)
    other = first._replace(request_hash="h2")
    assert await repeats.begin(other) is None
    assert await repeats.begin(first) == ("h2", None, b"")
    assert await repeats.begin(first._replace(key=new_id())) is None


@pytest.mark.server
async def test_more_newcomers_than_may_wait_for_a_connection_get_an_account(
    postgres_dsn: str,
) -> None:
    names = [f"newcomer{index}" for index in range(POOL_WAITING_MAX + 50)]
    async with create_pool(postgres_dsn, 1, 2) as connections:
        first, second = PostgresAccountStore(connections), PostgresAccountStore(connections)
        accounts = await asyncio.gather(
            *(first.open_account(name) for name in [*names, *names[:50]])
        )
        assert accounts[: len(names)] == [await second.find_account(name) for name in names]
        assert accounts[len(names) :] == accounts[:50]
        assert len(set(accounts)) == len(names)
        assert await second.open_account(names[0]) == accounts[0]


@pytest.mark.server
async def test_another_process_sees_a_rename_once_it_forgets_what_it_read(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with create_pool(postgres_dsn, 1, 2) as connections:
        first, second = PostgresAccountStore(connections), PostgresAccountStore(connections)
        ada = await first.open_account("ada")
        assert await second.names_of([ada, "nobody"]) == {ada: "ada"}
        assert await second.name_of(ada) == "ada"
        assert await first.rename(ada, "lovelace")
        assert (await first.name_of(ada), await second.name_of(ada)) == ("lovelace", "ada")
        monkeypatch.setattr(ingest.postgres, "NAMES_KEPT_S", 0.0)
        assert await second.name_of(ada) == "lovelace"


@pytest.mark.server
async def test_two_processes_that_open_one_account_at_once_agree(postgres_dsn: str) -> None:
    async with create_pool(postgres_dsn, 1, 4) as one, create_pool(postgres_dsn, 1, 4) as other:
        for turn in range(20):
            registers = PostgresAccountStore(one), PostgresAccountStore(other)
            opened = await asyncio.gather(*(each.open_account(f"ada{turn}") for each in registers))
            assert len(set(opened)) == 1


async def test_a_lost_name_is_given_back_and_no_new_one_is_given_out(people: AccountStore) -> None:
    grace, nameless = await people.open_account("grace"), new_id()
    await people.set_lost(is_lost=True)
    assert (await people.register_row()).is_lost
    with pytest.raises(Refused) as refused:
        await people.open_account("ada")
    assert refused.value.code == "accounts_lost"
    assert await people.open_account("grace") == grace
    assert not await people.has_row(nameless)
    assert not await people.rename(nameless, "grace")
    assert await people.rename(nameless, "ada")
    assert (await people.find_account("ada"), await people.has_row(nameless)) == (nameless, True)
    await people.set_lost(is_lost=False)
    assert await people.open_account("joan")
