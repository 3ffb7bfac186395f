"""Postgres is lost and begins empty: what participants and operators can do, and who cannot."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import psycopg
import pytest

from ingest.identity.login.postgres import LoginStore
from ingest.identity.login.rules import check_password
from ingest.identity.login.sign_in import Argon2Hasher
from ingest.ports import Identity
from shared.clock import new_id, now
from shared.errors import Refused
from shared.events import AccountTablesAdopted
from shared.postgres import migrate
from tests.support.door import KERNEL_FILE, OPERATOR, Door, opened, postgres_stores
from tests.support.memory import MemoryLog

pytestmark = pytest.mark.server

SCOPES = ["submit", "read:own", "account", "webhooks"]
WHY = {"reason": "a test"}


@asynccontextmanager
async def started(log: MemoryLog, dsn: str, *, is_first: bool = False) -> AsyncIterator[Door]:
    """ingest over this log and this database, as at its start; only tokens are believed."""
    async with (
        postgres_stores(dsn) as stores,
        opened(log, stores=stores, are_names_believed=False, first=is_first) as door,
    ):
        await door.commands.account_tables.settle()
        yield door


def lose(dsn: str) -> None:
    """The database is gone, and an empty one is in its place."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop schema accounts cascade")
    migrate(dsn, "shared", "accounts")


class Ada:
    """A participant with a token that knows her account."""

    def __init__(self, account: str, token: str) -> None:
        self.account = account
        self.headers = {"Authorization": f"Bearer {token}"}

    async def issue_own(self, door: Door) -> httpx.Response:
        body = {"name": "another", "scopes": ["submit"]}
        return await door.http.post("/v1/tokens", json=body, headers=self.headers)

    async def submit(self, door: Door, **fields: str) -> httpx.Response:
        return await door.ask(fields, KERNEL_FILE, self.headers)

    async def add_webhook(self, door: Door) -> httpx.Response:
        body = {"url": "https://ada.example/hook", "events": ["submission.ended"]}
        return await door.http.post("/v1/webhooks", json=body, headers=self.headers)


async def register(door: Door, name: str) -> httpx.Response:
    return await door.admin("POST", "participants", name=name, **WHY)


async def token_of(door: Door, name: str) -> httpx.Response:
    body: dict[str, Any] = {"participant": name, "name": "t", "scopes": SCOPES, **WHY}
    return await door.admin("POST", "tokens", **body)


async def prepare(log: MemoryLog, dsn: str) -> Ada:
    """A platform with the problem copy, where ada is registered, has a token and submitted."""
    async with started(log, dsn, is_first=True) as door:
        assert (await door.publish(headers=OPERATOR)).status_code == 201
        opened_account = await register(door, "ada")
        assert opened_account.status_code == 201, opened_account.text
        issued = await token_of(door, "ada")
        assert issued.status_code == 201, issued.text
        ada = Ada(opened_account.json()["participant_id"], issued.json()["token"])
        assert (await ada.issue_own(door)).status_code == 201
        assert (await ada.submit(door, note="mine")).status_code == 202
        (adopted,) = await log.history("audit.accounts")
        assert isinstance(adopted.fact, AccountTablesAdopted)
    return ada


async def test_after_the_loss_every_request_has_an_answer_and_a_fix(postgres_dsn: str) -> None:
    log = MemoryLog()
    ada = await prepare(log, postgres_dsn)
    lose(postgres_dsn)
    async with started(log, postgres_dsn) as door:
        # Her token holds, for the log knows it.
        assert (await ada.submit(door)).status_code == 202
        assert (await door.http.get("/v1/me", headers=ada.headers)).status_code == 200
        # What refers to her name is refused, with a way back; nothing of it is accepted.
        count = await log.last()
        for answer in (
            await ada.issue_own(door),
            await ada.submit(door, note="mine"),
            await ada.add_webhook(door),
            await token_of(door, ada.account),
        ):
            assert (answer.status_code, answer.json()["code"]) == (409, "name_lost"), answer.text
            assert f"rename {ada.account} NAME" in answer.json()["detail"]
        assert await log.last() == count
        # Nobody takes her name, or any other.
        for name in ("ada", "mallory"):
            taken = await register(door, name)
            assert (taken.status_code, taken.json()["code"]) == (409, "accounts_lost"), taken.text
            assert "warpboard server restore" in taken.json()["detail"]
        # Operators find her by her account, ban her and let her in again.
        participant = await door.admin("GET", f"participants/{ada.account}")
        assert (participant.status_code, participant.json()["participant_id"]) == (200, ada.account)
        for act in ("ban", "unban"):
            answer_ = await door.admin("POST", f"participants/{ada.account}/{act}", **WHY)
            assert answer_.status_code == 200, answer_.text
        # They give her name back, and all is as it was.
        path = f"participants/{ada.account}/name"
        named = await door.admin("PUT", path, name="ada", **WHY)
        assert (named.status_code, named.json()["name"]) == (200, "ada"), named.text
        assert (await ada.issue_own(door)).status_code == 201
        assert (await ada.submit(door, note="mine")).status_code == 202
        again = await door.admin("PUT", path, name="ada2", **WHY)
        assert again.status_code == 200
        assert (await register(door, "mallory")).json()["code"] == "accounts_lost"


async def test_an_unused_account_is_unknown(postgres_dsn: str) -> None:
    log = MemoryLog()
    await prepare(log, postgres_dsn)
    async with started(log, postgres_dsn) as door:
        answer = await door.admin("POST", f"participants/{new_id()}/ban", **WHY)
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_participant")


async def test_names_are_free_again_once_an_operator_adopts_new_tables(postgres_dsn: str) -> None:
    log = MemoryLog()
    await prepare(log, postgres_dsn)
    lose(postgres_dsn)
    async with started(log, postgres_dsn) as door:
        assert (await register(door, "mallory")).json()["code"] == "accounts_lost"
        adopted = await door.admin("POST", "accounts/adopt", **WHY)
        assert adopted.status_code == 200, adopted.text
        assert isinstance(await door.said(adopted), AccountTablesAdopted)
        assert (await register(door, "mallory")).status_code == 201
    async with started(log, postgres_dsn) as door:
        assert (await register(door, "grace")).status_code == 201
    lose(postgres_dsn)
    async with started(log, postgres_dsn) as door:
        assert (await register(door, "grace")).json()["code"] == "accounts_lost"


async def test_restored_tables_match_the_log(postgres_dsn: str) -> None:
    log = MemoryLog()
    ada = await prepare(log, postgres_dsn)
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        stored_register = connection.execute("select register from accounts.register").fetchone()
        assert stored_register is not None
        lose(postgres_dsn)
        async with started(log, postgres_dsn) as door:
            assert (await register(door, "ada")).json()["code"] == "accounts_lost"
        connection.execute("update accounts.register set register = %s", stored_register)
        connection.execute(
            "insert into accounts.participant (account, name) values (%s, 'ada')", [ada.account]
        )
    async with started(log, postgres_dsn) as door:
        assert (await register(door, "ada")).status_code == 200
        assert (await register(door, "grace")).status_code == 201


async def test_tables_that_were_not_adopted_at_first_are_if_they_have_names(
    postgres_dsn: str,
) -> None:
    log = MemoryLog()
    async with (
        postgres_stores(postgres_dsn) as stores,
        opened(log, stores=stores, are_names_believed=False) as door,
    ):
        # This one does not settle: nothing is adopted.
        assert (await register(door, "ada")).status_code == 201
    async with started(log, postgres_dsn) as door:
        assert (await register(door, "grace")).status_code == 201
    lose(postgres_dsn)
    async with started(log, postgres_dsn) as door:
        assert (await register(door, "ada")).json()["code"] == "accounts_lost"


async def test_nobody_logs_in_while_names_are_lost(postgres_dsn: str) -> None:
    log = MemoryLog()
    await prepare(log, postgres_dsn)
    lose(postgres_dsn)
    password = "correct horse battery"
    check_password(password, "ada")
    async with started(log, postgres_dsn) as door:
        store = LoginStore(door.stores.pool)
        assert await store.is_lost()
        hashed = await Argon2Hasher().hash_password(password)
        stranger = Identity(new_id(), "web", "ada", new_id())
        with pytest.raises(Refused) as by_password:
            await store.open_account("open_with_password", "ada", stranger, hash=hashed, at=now())
        with pytest.raises(Refused) as by_identity:
            await store.open_account("open_with_identity", "ada", stranger)
        assert {by_password.value.code, by_identity.value.code} == {"accounts_lost"}
