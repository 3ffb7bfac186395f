"""Participants' notes about their submissions are shown to them and to staff only."""

from typing import Any

import pytest

from shared.postgres import connect
from tests.support.lives import Life
from tests.support.reading import STAFF, Reads, as_

pytestmark = pytest.mark.server
SAID = {"note": "tiles of 64 x 64", "tag": "tiles"}


@pytest.fixture
async def reads(reads: Reads) -> Reads:
    await reads.named("ada", "Ada")
    return reads


async def noted(reads: Reads) -> int:
    """Two submissions of ada's; returns the number of the one with a note."""
    submissions = await reads.ended(Life("said"), Life("plain"))
    async with await connect(reads.dsn, "accounts") as connection:
        await connection.execute(
            b"insert into submission_note (submission, account, note, tag)"
            b" values ('said', 'ada', %(note)s, %(tag)s)",
            SAID,
        )
    return int(next(item["number"] for item in submissions if item["id"] == "said"))


async def get_page(reads: Reads, path: str, headers: dict[str, str]) -> Any:
    answer = await reads.http.get(f"/v1/{path}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("headers", [as_("ada"), STAFF])
async def test_a_note_is_shown_to_its_owner_and_to_staff(
    reads: Reads, headers: dict[str, str]
) -> None:
    number = await noted(reads)
    page = await get_page(reads, f"submissions/{number}", headers)
    lines = (await get_page(reads, "submissions", headers))["items"]
    for page_or_line in (page, *(line for line in lines if line["number"] == number)):
        assert {name: page_or_line[name] for name in SAID} == SAID


async def test_a_note_is_shown_to_nobody_else(reads: Reads) -> None:
    number = await noted(reads)
    for headers in (as_("grace"), as_(None)):
        for path in (f"submissions/{number}", "submissions", "leaderboards/identity/CPU"):
            assert "tiles" not in str(await get_page(reads, path, headers))


@pytest.mark.feature("P18")
async def test_ones_own_list_has_those_of_a_tag(reads: Reads) -> None:
    number = await noted(reads)
    tagged = (await get_page(reads, "me/submissions?tag=tiles", as_("ada")))["items"]
    assert [item["number"] for item in tagged] == [number]
    assert (await get_page(reads, "me/submissions?tag=other", as_("ada")))["items"] == []
    assert (await get_page(reads, "me/submissions?tag=tiles", as_("grace")))["items"] == []
    assert len((await get_page(reads, "me/submissions", as_("ada")))["items"]) == 2
