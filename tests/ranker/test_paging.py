"""Consistent pages, cursors, ETags, and invalid cursors."""

import base64
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.http import responses
from ranker.http.problems import ProblemCursor
from ranker.http.submissions import OwnCursor
from shared import events, subjects
from shared.errors import Refused
from tests.support.lives import Life, live, problem, say
from tests.support.reading import Reads, as_
from tests.support.waits import eventually

pytestmark = pytest.mark.server
BOARD = "leaderboards/identity/CPU"


async def entries(reads: Reads, count: int, account: str = "p{}") -> None:
    lives = [
        Life(f"s{number}", account.format(number), 100.0 + 10 * number) for number in range(count)
    ]
    await live(reads.log, *lives)

    async def all_there() -> bool:
        items = (await reads.get("submissions?state=finished"))["items"]
        return len(items) == count

    await eventually(all_there)


async def pages(reads: Reads, path: str, headers: dict[str, str] | None = None) -> list[list[Any]]:
    pages_, cursor = [], None
    for _ in range(50):
        more = f"&cursor={cursor}" if cursor else ""
        answer = await reads.http.get(f"/v1/{path}{more}", headers=headers)
        assert answer.status_code == 200, answer.text
        pages_.append(answer.json()["items"])
        cursor = answer.json()["next_cursor"]
        assert cursor is None or len(cursor) <= 256
        if cursor is None:
            return pages_
    raise AssertionError("the pages never end")


async def test_the_pages_of_a_board_are_of_one_moment(reads: Reads) -> None:
    await entries(reads, 12)
    first = await reads.get(f"{BOARD}?limit=5")
    assert len(await pages(reads, f"{BOARD}?limit=5")) == 3
    await reads.ended(Life("fast", "new", 1.0))
    assert (await reads.board())[0]["submission"] == "fast"
    second = await reads.get(f"{BOARD}?limit=5&cursor={first['next_cursor']}")
    assert second["as_of"] == first["as_of"]
    assert [item["submission"] for item in second["items"]] == ["s5", "s6", "s7", "s8", "s9"]
    assert [item["rank"] for item in second["items"]] == [6, 7, 8, 9, 10]
    assert first["best_us"] == second["best_us"] == first["items"][0]["score_us"] == 100.0
    (gpu,) = second["gpu_leaderboards"]
    counts = {"entries_count": 13, "agents_online": 0}
    assert gpu == {"gpu": "CPU", "is_open": True, "is_tested": False} | counts


async def test_the_list_of_leaderboards_has_the_fastest_entries_if_they_are_wanted(
    reads: Reads,
) -> None:
    await entries(reads, 4)
    (line,) = (await reads.get("leaderboards"))["items"]
    assert (line["entries_count"], line["leaders"]) == (4, [])
    (line,) = (await reads.get("leaderboards?top=3"))["items"]
    assert [leader["participant_id"] for leader in line["leaders"]] == ["p0", "p1", "p2"]
    assert [leader["score_us"] for leader in line["leaders"]] == [100.0, 110.0, 120.0]


async def test_a_board_that_fits_has_no_next_page(reads: Reads) -> None:
    await entries(reads, 3)
    assert (await reads.get(f"{BOARD}?limit=3"))["next_cursor"] is None


async def test_ones_own_list_goes_on_where_it_stopped_and_takes_nothing_new(reads: Reads) -> None:
    await entries(reads, 7, "ada")
    first = (await reads.http.get("/v1/me/submissions?limit=3", headers=as_("ada"))).json()
    await reads.ended(Life("late", "ada"))
    path = f"/v1/me/submissions?limit=3&cursor={first['next_cursor']}"
    second = (await reads.http.get(path, headers=as_("ada"))).json()
    assert [item["id"] for item in first["items"] + second["items"]] == [
        f"s{number}" for number in range(6, 0, -1)
    ]
    all_pages = await pages(reads, "me/submissions?limit=3", as_("ada"))
    assert sum(map(len, all_pages)) == 8
    assert (await reads.http.get("/v1/me/submissions", headers=as_("grace"))).json()["items"] == []
    assert (await reads.http.get("/v1/me/submissions", headers=as_(None))).status_code == 401


async def test_problems_come_page_by_page_in_the_order_of_their_names(reads: Reads) -> None:
    for slug in ("a", "b", "c", "d"):
        await say(reads.log, subjects.problem(slug), problem())

    async def there() -> bool:
        return len((await reads.get("problems"))["items"]) == 5

    await eventually(there)
    problem_pages = await pages(reads, "problems?limit=2")
    assert [[item["slug"] for item in page] for page in problem_pages] == [
        ["a", "b"],
        ["c", "d"],
        ["identity"],
    ]
    # Every title is Identity: the search ignores case, and looks at GPU types, too.
    for text, count in (("IDENTITY", 5), ("cpu", 5), ("identity identity", 1), ("H100", 0)):
        found = await reads.http.get("/v1/problems", params={"search": text})
        assert len(found.json()["items"]) == count, text


@pytest.mark.feature("N22")
async def test_who_has_these_bytes_is_told_so(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))
    for path in (BOARD, "problems", f"submissions/{submission['number']}", "me/submissions"):

        async def unchanged(path: str = path) -> bool:
            answer = await reads.http.get(f"/v1/{path}", headers=as_("ada"))
            assert not answer.headers["etag"].startswith("W/")
            assert float(answer.headers["warpboard-projection-lag"]) >= 0
            tag = {"If-None-Match": answer.headers["etag"]}
            again = await reads.http.get(f"/v1/{path}", headers=as_("ada") | tag)
            return (again.status_code, again.content) == (304, b"")

        # What is still to be projected of that life changes `as_of` between two requests.
        await eventually(unchanged)
    path = f"submissions/{submission['number']}"
    before = await reads.http.get(f"/v1/{path}", headers=as_("ada"))
    tag = {"If-None-Match": before.headers["etag"]}
    await say(reads.log, subjects.moderation("s1"), events.SubmissionHeld(rule="r", reason=""))

    async def changed() -> bool:
        page = await reads.http.get(f"/v1/{path}", headers=as_("ada") | tag)
        return page.status_code == 200

    await eventually(changed)


async def test_with_an_etag_a_read_waits_for_news(reads: Reads) -> None:
    life = Life("s1")
    for aggregate, fact in life.facts()[:1]:
        await say(reads.log, aggregate, fact, life.id)

    async def queued() -> Any:
        items = (await reads.get("submissions"))["items"]
        return items and items[0]["state"] == "queued" and items[0]["number"]

    number = await eventually(queued)
    answer = await reads.http.get(f"/v1/submissions/{number}")
    tag, began = {"If-None-Match": answer.headers["etag"]}, time.monotonic()
    await reads.http.get(f"/v1/submissions/{number}?wait_s=0.5", headers=tag)
    assert time.monotonic() - began >= 0.5
    await say(reads.log, *life.facts()[1], life.id)
    progress = await reads.http.get(f"/v1/submissions/{number}?wait_s=10", headers=tag)
    assert progress.json()["state"] == "assigned"


def carried(**fields: object) -> str:
    plain = {"k": "problem", "made_at": time.time(), "as_of": 1, "slug": "a"}
    return base64.urlsafe_b64encode(msgspec.json.encode(plain | fields)).decode().rstrip("=")


async def test_an_old_cursor_and_one_of_nothing_are_refused(reads: Reads) -> None:
    async def answer(path: str, cursor: str) -> tuple[int, str]:
        response = await reads.http.get(f"/v1/{path}", params={"cursor": cursor})
        return response.status_code, response.json().get("code", "")

    assert await answer("problems", carried(made_at=time.time() - 3601)) == (410, "cursor_expired")
    assert (await answer("problems", carried(made_at=time.time() + 900)))[0] == 400
    assert (await answer("problems", carried(slug="\0")))[0] == 422
    assert (await answer("problems", carried(k="own")))[0] == 400
    gone = {"k": "board", "board": "x", "offset": 5}
    assert (await answer(BOARD, carried(**gone)))[0] == 400
    for nonsense in ("x", "????", "e30", "bnVsbA", "\N{SNOWMAN}", "A" * 256):
        assert await answer("problems", nonsense) == (400, "bad_cursor")
    assert (await answer("problems", "A" * 257))[0] == 422


@given(st.text(max_size=256))
def test_no_text_is_worse_than_a_refusal(text: str) -> None:
    for kind in (ProblemCursor, OwnCursor):
        with pytest.raises(Refused, match="start without one"):
            responses.decode_cursor(text, kind)


@given(st.integers(0, 2**53), st.text(max_size=60))
def test_a_cursor_comes_back_as_it_was(as_of: int, slug: str) -> None:
    cursor = ProblemCursor(
        made_at=time.time(), as_of=as_of, slug="".join(filter(str.isascii, slug))
    )
    try:
        text = responses.encode_cursor(cursor)
    except AssertionError:
        return
    assert responses.decode_cursor(text, ProblemCursor) == cursor
