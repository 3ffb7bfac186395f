"""What operators did, as they read it themselves, from the archive."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from ranker.archive.keeping import keep
from ranker.archive.postgres import Shelf, archive
from ranker.commands.replaying import Unwatched
from ranker.http.acts import acts
from ranker.service import News
from shared import events, subjects
from shared.clock import new_id
from shared.event_log import New
from shared.events import Fact
from shared.http import install
from shared.memory import MemoryLog
from shared.postgres import pool
from shared.wire import Stamp, seal
from tests.support.lives import T0, Life, begin, live
from tests.support.reading import STAFF, as_

pytestmark = pytest.mark.server


async def by(log: MemoryLog, actor: str, agg: str, fact: Fact) -> None:
    await log.append(New(seal(fact, agg, Stamp(new_id(), T0, actor, "", "")), None))


@pytest.fixture
async def http(postgres_dsn: str) -> AsyncIterator[httpx.AsyncClient]:
    log, news = MemoryLog(), News()
    await begin(log)
    await live(log, Life("s1"))
    pool_agg = subjects.pool("CPU")
    await by(log, "operator:olga", pool_agg, events.PoolPaused(reason="a new driver"))
    held = events.SubmissionHeld(rule="r", reason="look")
    await by(log, "account:a-1", subjects.moderation("s1"), held)
    issued = events.TokenIssued(
        token="t", token_hash="secret", kind="api", scopes=[], expires_at=None
    )
    await by(log, "account:a-1", subjects.account("a-1"), issued)
    await by(log, "operator:olga", pool_agg, events.PoolResumed(reason="it works"))
    last = await log.last()
    news.tell(last)
    async with archive(postgres_dsn) as kept:
        await keep(log, kept, Unwatched(), until=last)
    app = FastAPI()
    install(app)
    async with pool(postgres_dsn, 1, 2) as connections:
        acts(app, Shelf(connections), news)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://ranker") as client:
            yield client


async def test_acts_are_told_with_who_and_why_newest_first(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/admin/audit", headers=STAFF)
    items = answer.json()["items"]
    said = [(one["type"], one["actor"], one["reason"]) for one in items[:3]]
    assert said == [
        ("PoolResumed", "operator:olga", "it works"),
        ("SubmissionHeld", "account:a-1", "look"),
        ("PoolPaused", "operator:olga", "a new driver"),
    ]
    assert items[1]["data"]["rule"] == "r"
    assert "TokenIssued" not in answer.text
    assert "secret" not in answer.text


async def test_pages_go_on_to_the_beginning(http: httpx.AsyncClient) -> None:
    found, before = [], 2**53 - 1
    for _ in range(20):
        path = f"/v1/admin/audit?limit=1&before={before}"
        page = (await http.get(path, headers=STAFF)).json()
        found += [one["seq"] for one in page["items"]]
        if page["next_before"] is None:
            break
        before = page["next_before"]
    whole = (await http.get("/v1/admin/audit", headers=STAFF)).json()["items"]
    assert found == [one["seq"] for one in whole]


async def test_nobody_but_staff_reads_them(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/admin/audit", headers=as_(None))).status_code == 401
    assert (await http.get("/v1/admin/audit", headers=as_("ada"))).status_code == 403
