"""A leaderboard that is read again is answered from memory, to each reader as it is now."""

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from ranker.http.leaderboard_cache import AGE_S_MAX, LeaderboardCache
from ranker.service.progress import ProjectionProgress
from shared import events, subjects
from shared.events import Fact
from tests.support.lives import Life, say
from tests.support.reading import STAFF, Reads, as_
from tests.support.waits import eventually

pytestmark = pytest.mark.server
# The statements of one read.
STATEMENTS_MAX = 3
BOARD = "/v1/leaderboards/identity/CPU"
PUBLIC = as_(None)
PUBLISHED = events.LeaderboardChanged(visibility="public", reason="nothing")


async def read(reads: Reads, headers: dict[str, str], query: str = "") -> tuple[int, bytes]:
    answer = await reads.http.get(BOARD + query, headers=headers)
    return answer.status_code, answer.content


async def shown(reads: Reads) -> list[str]:
    """The participants on the public leaderboard."""
    items = (await reads.http.get(BOARD, headers=PUBLIC)).json()["items"]
    return [item["participant_id"] for item in items]


async def told(reads: Reads, aggregate: str, fact: Fact) -> None:
    """Append an event, and wait until it is folded."""
    await say(reads.log, aggregate, fact)
    await reads.settle()


@pytest.fixture
def only_events_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bytes grow no older."""
    monkeypatch.setattr("ranker.http.leaderboard_cache.AGE_S_MAX", 3600.0)


@pytest.mark.usefixtures("only_events_count")
async def test_the_second_read_asks_nothing_of_postgres(reads: Reads) -> None:
    await reads.ended(Life("s1"))
    await reads.settle()
    first = await reads.http.get(BOARD, headers=PUBLIC)
    count = len(reads.statements)
    second = await reads.http.get(BOARD, headers=PUBLIC)
    assert (second.status_code, second.content) == (200, first.content)
    assert second.headers["etag"] == first.headers["etag"]
    tag = {"If-None-Match": f'W/{first.headers["etag"]}, "another"'}
    again = await reads.http.get(BOARD, headers=PUBLIC | tag)
    assert (again.status_code, again.content) == (304, b"")
    assert len(reads.statements) == count
    await reads.http.get(f"{BOARD}?records=5", headers=PUBLIC)
    assert len(reads.statements) > count


async def test_who_reads_at_once_shares_one_read(reads: Reads) -> None:
    await reads.ended(Life("s1"))
    await reads.settle()
    del reads.statements[:]
    bodies = await asyncio.gather(*(read(reads, PUBLIC) for _ in range(20)))
    assert {status for status, _ in bodies} == {200}
    assert len(set(bodies)) == 1
    assert len(reads.statements) == STATEMENTS_MAX


async def test_who_has_the_page_leaves_it_whole_for_the_next(reads: Reads) -> None:
    etag = (await reads.http.get(BOARD, headers=PUBLIC)).headers["etag"]
    await told(reads, subjects.problem("identity"), PUBLISHED)
    known = await reads.http.get(BOARD, headers=PUBLIC | {"If-None-Match": etag})
    assert known.status_code in (200, 304)
    answer = await reads.http.get(BOARD, headers=PUBLIC)
    assert (answer.status_code, answer.json()["problem"]) == (200, "identity")


@pytest.mark.usefixtures("only_events_count")
async def test_a_leaderboard_that_is_closed_is_gone_at_once_for_all_but_its_members(
    reads: Reads,
) -> None:
    await reads.ended(Life("s1"))
    readers = [PUBLIC, as_("grace"), as_("grace", "identity"), STAFF]
    assert [(await read(reads, who))[0] for who in readers] == [200] * 4
    closed = events.LeaderboardChanged(visibility="closed", reason="a contest")
    await told(reads, subjects.problem("identity"), closed)
    for _ in range(2):
        assert [(await read(reads, who))[0] for who in readers] == [404, 404, 200, 200]


@pytest.mark.usefixtures("only_events_count")
async def test_what_is_held_banned_or_withdrawn_is_gone_at_once(reads: Reads) -> None:
    await reads.ended(Life("s1", "ada"), Life("s2", "grace", 200.0))
    await reads.settle()
    assert await shown(reads) == ["ada", "grace"]
    held = events.SubmissionHeld(rule="r", reason="look")
    await told(reads, subjects.moderation("s1"), held)
    assert await shown(reads) == ["grace"]
    await told(reads, subjects.moderation("s1"), events.SubmissionReleased(reason="fine"))
    assert await shown(reads) == ["ada", "grace"]
    await told(reads, subjects.account("grace"), events.AccountBanned(reason="cheats"))
    assert await shown(reads) == ["ada"]
    await told(reads, subjects.account("grace"), events.AccountUnbanned(reason="did not"))
    assert await shown(reads) == ["ada", "grace"]
    await told(reads, subjects.moderation("s2"), events.SubmissionWithdrawn(reason="mine"))
    assert await shown(reads) == ["ada"]


@pytest.mark.usefixtures("only_events_count")
async def test_a_new_entry_shows_at_once_and_a_failed_submission_changes_nothing(
    reads: Reads,
) -> None:
    await reads.ended(Life("s1", "ada"))
    await reads.settle()
    before = await read(reads, PUBLIC)
    await reads.ended(Life("s2", "grace", verdict="wrong_answer"))
    await reads.settle()
    assert await read(reads, PUBLIC) == before
    await reads.ended(Life("s3", "grace", 50.0))
    assert await shown(reads) == ["grace", "ada"]


async def test_a_name_shows_within_a_moment(reads: Reads) -> None:
    await reads.named("ada", "Ada")
    await reads.ended(Life("s1", "ada"))
    await reads.renamed("Ada", "Lovelace")

    async def is_renamed() -> bool:
        items = (await reads.http.get(BOARD, headers=PUBLIC)).json()["items"]
        return [item["participant"] for item in items] == ["Lovelace"]

    await eventually(is_renamed, 10 * AGE_S_MAX)


async def test_only_so_many_bytes_are_kept() -> None:
    calls: list[bytes] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        calls.append(scope["query_string"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"etag", b'"e"')]})
        await send({"type": "http.response.body", "body": bytes(100)})

    kept = LeaderboardCache(app, ProjectionProgress(), 250, lambda: 0.0)

    async def ask(query: bytes) -> None:
        scope = {"type": "http", "method": "GET", "path": BOARD, "headers": []}

        async def receive() -> Message:
            return {"type": "http.request"}

        async def ignore(_: Message) -> None:
            return None

        await kept({**scope, "query_string": query}, receive, ignore)

    for query in (b"a", b"b", b"a", b"c", b"a", b"b"):
        await ask(query)
    assert calls == [b"a", b"b", b"c", b"b"]
