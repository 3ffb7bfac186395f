"""Participants' accounts, opened by as many as come."""

import asyncio

import pytest

from ingest.postgres import PostgresPeople
from shared.postgres import POOL_WAITING_MAX, migrate, pool

pytestmark = pytest.mark.server


async def test_more_newcomers_than_may_wait_for_a_connection_get_an_account(
    postgres_dsn: str,
) -> None:
    await asyncio.to_thread(migrate, postgres_dsn, "shared", "accounts")
    names = [f"newcomer{index}" for index in range(POOL_WAITING_MAX + 50)]
    async with pool(postgres_dsn, 1, 2) as connections:
        first, second = PostgresPeople(connections), PostgresPeople(connections)
        found = await asyncio.gather(*(first.account(one) for one in [*names, *names[:50]]))
        assert found[: len(names)] == [await second.known(one) for one in names]
        assert found[len(names) :] == found[:50]
        assert len(set(found)) == len(names)
        assert await second.account(names[0]) == found[0]


async def test_two_processes_that_open_one_account_at_once_agree(postgres_dsn: str) -> None:
    await asyncio.to_thread(migrate, postgres_dsn, "shared", "accounts")
    async with pool(postgres_dsn, 1, 4) as one, pool(postgres_dsn, 1, 4) as other:
        for turn in range(20):
            registers = PostgresPeople(one), PostgresPeople(other)
            opened = await asyncio.gather(*(each.account(f"ada{turn}") for each in registers))
            assert len(set(opened)) == 1
