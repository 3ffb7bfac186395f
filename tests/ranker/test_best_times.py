"""Who is fastest at each case of a leaderboard; a hidden case has no leaderboard."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared import events
from tests.support.lives import Life
from tests.support.reading import Reads, as_

pytestmark = pytest.mark.server
PATH = "leaderboards/identity/CPU/best-times"


class TwoCases(Life):
    """A run of a small and a large case, of which the last decides the score, and a hidden one.

    Who is fast at the large case is as much slower at the small one.
    """

    def completed(self) -> events.RunCompleted:
        """The verdict, with three timed cases."""
        completed = super().completed()
        (large,) = completed.cases
        small_us = 5000.0 / self.time_us
        small = replace(
            large, name="size=0", time_us=small_us, interval_us=(small_us * 0.9, small_us * 1.1)
        )
        hidden = replace(large, name="hidden benchmark 1", is_hidden=True)
        return replace(completed, cases=[small, hidden, large])


def names(board: Any) -> list[tuple[int, str, bool, int]]:
    return [
        (item["place"], item["participant"], item["is_tied"], item["rank"])
        for item in board["items"]
    ]


@pytest.mark.feature("N6")
async def test_each_case_has_its_own_order_and_its_fastest(reads: Reads) -> None:
    for account in ("ada", "grace", "linus"):
        await reads.named(account, account.title())
    assert (await reads.get(PATH))["items"] == []
    await reads.ended(
        TwoCases("s1", "ada", 50.0),
        TwoCases("s2", "grace", 100.0),
        TwoCases("s3", "linus", 105.0),
    )
    best = await reads.get(PATH)
    assert [(board["case"], board["entries_count"]) for board in best["items"]] == [
        ("size=0", 3),
        ("size=1", 3),
    ]
    assert [names(board) for board in best["items"]] == [
        [(1, "Linus", False, 3)],
        [(1, "Ada", False, 1)],
    ]
    assert best["items"][1]["items"][0]["time_us"] == 50.0
    whole = await reads.get(f"{PATH}?limit=3&case=size%3D0")
    (board,) = whole["items"]
    assert names(board) == [
        (1, "Linus", False, 3),
        (2, "Grace", True, 2),
        (3, "Ada", False, 1),
    ]


async def test_a_hidden_case_has_no_leaderboard(reads: Reads) -> None:
    await reads.ended(TwoCases("s1", "ada", 50.0))
    answer = await reads.http.get(f"/v1/{PATH}?limit=9", headers=as_("grace"))
    assert "hidden" not in answer.text
    asked = await reads.http.get(f"/v1/{PATH}?case=hidden%20benchmark%201", headers=as_("ada"))
    assert (asked.status_code, asked.json()["code"]) == (404, "not_found")
