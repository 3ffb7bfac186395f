"""The practice leaderboard of a problem that is in no contest, beside the frozen one."""

from typing import Any

import pytest

from shared import events, subjects
from shared.clock import now
from tests.support.lives import Life, say
from tests.support.reading import Reads
from tests.support.waits import eventually

PATH = "leaderboards/identity/CPU"
PRACTICE_PATH = f"{PATH}/practice"


def places(board: Any) -> list[tuple[int, str, float]]:
    return [(item["rank"], item["participant"], item["score_us"]) for item in board["items"]]


async def until_places(reads: Reads, expected: list[tuple[int, str, float]]) -> Any:
    """The practice leaderboard once it has these places: a response is kept for a moment."""

    async def read() -> Any:
        board = await reads.get(PRACTICE_PATH)
        return board if places(board) == expected else None

    return await eventually(read)


async def close(reads: Reads, *, has_practice: bool) -> None:
    changed = events.LeaderboardChanged(
        visibility=None, reason="", has_deadline=True, deadline_at=now(), has_practice=has_practice
    )
    await say(reads.log, subjects.problem("identity"), changed)
    await reads.settle()


@pytest.mark.feature("A5")
@pytest.mark.server
async def test_what_comes_after_the_deadline_is_ranked_beside_the_leaderboard(
    reads: Reads,
) -> None:
    for account in ("ada", "grace", "linus"):
        await reads.named(account, account.title())
    await reads.ended(Life("s1", "ada", 100.0), Life("s2", "grace", 200.0))
    await close(reads, has_practice=True)
    frozen = await reads.get(f"{PATH}?records=10")
    assert (frozen["frozen"], frozen["has_practice"]) == (True, True)
    board = await reads.get(PRACTICE_PATH)
    assert (board["items"], board["is_open"]) == ([], True)

    late = [
        *(Life("p1", "grace", 40.0), Life("p2", "grace", 30.0), Life("p3", "linus", 60.0)),
        *(Life("p4", "ada", 20.0, verdict="failed"), Life("p5", "ada", 10.0, mode="benchmark")),
    ]
    ended = await reads.ended(*(Life(**vars(life) | {"is_practice": True}) for life in late))
    assert [item["code"] for item in ended[:3]] == ["practice"] * 3
    assert not any(item["is_eligible"] for item in ended)
    board = await until_places(reads, [(1, "Grace", 30.0), (2, "Linus", 60.0)])
    assert board["entries_count"] == 2
    assert places(await reads.get(f"{PRACTICE_PATH}?limit=1")) == [(1, "Grace", 30.0)]
    # The leaderboard, its records and the rank of its leader stay as they were.
    after = await reads.get(f"{PATH}?records=10")
    assert [after[name] for name in ("items", "records")] == [
        frozen[name] for name in ("items", "records")
    ]

    # A ban, a disqualification and a withdrawal count here, too; a later deadline does not.
    disqualified = events.SubmissionDisqualified(rule="r", reason="cheats")
    await say(reads.log, subjects.moderation("p2"), disqualified)
    banned = events.AccountBanned(reason="r", until_at=None)
    await say(reads.log, subjects.account("linus"), banned)
    await close(reads, has_practice=False)
    board = await until_places(reads, [(1, "Grace", 40.0)])
    assert board["is_open"] is False
