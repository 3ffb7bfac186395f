"""Operators read their acts from the archive."""

from collections.abc import AsyncIterator

import httpx
import pytest

from ranker.archive.archiver import run_archiver
from ranker.archive.postgres import ArchiveReader, open_archive
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.postgres import Reader
from ranker.service.decisions import Metrics
from ranker.service.progress import Live, ProjectionProgress
from shared import events, subjects
from shared.clock import new_id
from shared.event_log import NewEvent
from shared.events import Fact
from shared.postgres import create_pool
from shared.wire import EventMetadata, make_envelope
from tests.support.lives import T0, Life, begin, live
from tests.support.memory import MemoryBlobStore, MemoryLog
from tests.support.reading import STAFF, as_

pytestmark = pytest.mark.server


async def by(log: MemoryLog, actor: str, aggregate: str, fact: Fact) -> None:
    await log.append(
        NewEvent(make_envelope(fact, aggregate, EventMetadata(new_id(), T0, actor, "", "")), None)
    )


@pytest.fixture
async def http(postgres_dsn: str) -> AsyncIterator[httpx.AsyncClient]:
    log, progress = MemoryLog(), ProjectionProgress()
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
    agent_agg = subjects.agent("a1")
    failed = events.AgentQuarantined(reason="it failed", failures=3)
    await by(log, "service:scheduler", agent_agg, failed)
    await by(log, "account:a-1", agent_agg, events.AgentQuarantined(reason="in doubt"))
    await by(log, "operator:olga", pool_agg, events.PoolResumed(reason="it works"))
    last = await log.last()
    progress.advance(last)
    async with open_archive(postgres_dsn) as archive:
        await run_archiver(log, archive, Metrics(), until=last)
    async with create_pool(postgres_dsn, 1, 2) as connections:
        archive_reader = ArchiveReader(connections)
        app = create_app(
            ReadSources(
                Reader(connections), progress, Live(), log.last, MemoryBlobStore(), archive_reader
            )
        )
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://ranker") as client:
            yield client


@pytest.mark.feature("A10")
async def test_acts_are_told_with_who_and_why_newest_first(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/admin/audit", headers=STAFF)
    items = answer.json()["items"]
    acts = [(item["type"], item["actor"], item["reason"]) for item in items[:4]]
    assert acts == [
        ("PoolResumed", "operator:olga", "it works"),
        ("AgentQuarantined", "account:a-1", "in doubt"),
        ("SubmissionHeld", "account:a-1", "look"),
        ("PoolPaused", "operator:olga", "a new driver"),
    ]
    assert items[2]["data"]["rule"] == "r"
    assert "TokenIssued" not in answer.text
    assert "secret" not in answer.text


async def test_pages_go_on_to_the_beginning(http: httpx.AsyncClient) -> None:
    seqs, before = [], 2**53 - 1
    for _ in range(20):
        path = f"/v1/admin/audit?limit=1&before={before}"
        page = (await http.get(path, headers=STAFF)).json()
        seqs += [item["seq"] for item in page["items"]]
        if page["next_before"] is None:
            break
        before = page["next_before"]
    all_items = (await http.get("/v1/admin/audit", headers=STAFF)).json()["items"]
    assert seqs == [item["seq"] for item in all_items]


async def test_nobody_but_staff_reads_them(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/admin/audit", headers=as_(None))).status_code == 401
    assert (await http.get("/v1/admin/audit", headers=as_("ada"))).status_code == 403
