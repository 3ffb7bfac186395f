"""The family tree of a submission: declared and detected parents, gains, and who sees them."""

import dataclasses
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from shared import events, subjects
from shared.clock import now
from shared.postgres import connect
from tests.ranker.replays import replayed
from tests.support.lives import Life, problem, say
from tests.support.reading import STAFF, Reads, as_, reading
from tests.support.waits import eventually

pytestmark = pytest.mark.server

SOLUTIONS = Path(__file__).parents[2] / "problems" / "softmax" / "solutions" / "correct"
ROWS = (SOLUTIONS / "triton_rows.py").read_bytes()
OTHER = (SOLUTIONS / "numba_fused.py").read_bytes()
TUNED = ROWS.replace(b"rows", b"lines").replace(b"1024", b"512")
CHANGED = ROWS + b"\n\ndef warm_up(device):\n    torch.cuda.synchronize(device)\n"
SMALL = b"def custom_kernel(data):\n    return data.softmax(1)  # %d\n"
OWNERS, ALWAYS, LATER = 2, 3, 4


@pytest.fixture
async def reads(postgres_dsn: str) -> AsyncIterator[Reads]:
    """A problem with a version whose sources everybody reads, and others with hidden ones."""
    async with reading(postgres_dsn) as running:
        for name in ("ada", "grace", "eve"):
            await running.named(name, name.title())
        policies = ((OWNERS, "owner"), (ALWAYS, "always"), (LATER, "after_close"))
        for number, policy in policies:
            fact = replace(problem(number), source_visible=policy, gpus=["CPU", "H100"])
            await say(running.log, subjects.problem("identity"), fact)
        yield running


async def submitted(reads: Reads, source: bytes, life: Life) -> int:
    """Let a submission live with a source; its number."""
    blob = await reads.blobs.put(source)
    (page,) = await reads.ended(dataclasses.replace(life, source=blob.digest))
    return int(page["number"])


async def tree(
    reads: Reads, number: int, headers: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """The members of a lineage as a reader sees it, once all sources are compared."""
    path = f"/v1/submissions/{number}/lineage"

    async def complete() -> list[list[dict[str, Any]]]:
        answer = await reads.http.get(path, headers=headers or as_(None))
        assert answer.status_code == 200, answer.text
        return [answer.json()["items"]] if answer.json()["is_complete"] else []

    (items,) = await eventually(complete)
    return list(items)


def outline(members: list[dict[str, Any]]) -> list[tuple[int, int, list[tuple[int, str]]]]:
    """The generation, the number and the parents of each member."""
    return [
        (
            member["generation"],
            member["number"],
            [(parent["number"], parent["kind"]) for parent in member["parents"]],
        )
        for member in members
    ]


async def test_a_tree_has_what_each_step_gained_and_how_it_is_known(reads: Reads) -> None:
    first = await submitted(
        reads,
        ROWS,
        Life("s1", "ada", 100.0, process_us=(99.0, 100.0, 101.0), problem_number=ALWAYS),
    )
    second = await submitted(
        reads,
        OTHER,
        Life("s2", "eve", 80.0, parent=first, process_us=(79.0, 80.0, 81.0), problem_number=ALWAYS),
    )
    copy = await submitted(reads, TUNED, Life("s3", "grace", 50.0, problem_number=ALWAYS))
    both = await submitted(
        reads, CHANGED, Life("s4", "ada", 40.0, parent=second, problem_number=ALWAYS)
    )
    failed = await submitted(
        reads,
        SMALL % 1,
        Life("s5", "ada", verdict="wrong_answer", parent=both, problem_number=ALWAYS),
    )
    elsewhere = await submitted(
        reads, SMALL % 2, Life("s6", "eve", 10.0, parent=failed, gpu="H100", problem_number=ALWAYS)
    )
    last = await submitted(
        reads, SMALL % 3, Life("s7", "eve", 20.0, parent=failed, problem_number=ALWAYS)
    )
    members = await tree(reads, second)
    assert outline(members) == [
        (-1, first, []),
        (0, second, [(first, "declared")]),
        (1, both, [(second, "declared"), (copy, "detected")]),
        (2, failed, [(both, "declared")]),
        (3, elsewhere, [(failed, "declared")]),
        (3, last, [(failed, "declared")]),
    ]
    by_number = {member["number"]: member for member in members}
    gained = by_number[second]
    assert gained["speedup_over"] == first
    assert gained["speedup"] == pytest.approx(1.25, rel=1e-3)
    low, high = gained["speedup_interval"]
    assert 1.2 < low < 1.25 < high < 1.3
    assert gained["parents"][0]["similarity"] is None
    assert 0.7 <= by_number[both]["parents"][1]["similarity"] < 1
    assert by_number[both]["speedup_over"] == second
    assert by_number[both]["speedup"] == pytest.approx(2.0, rel=1e-3)
    # A time is compared with that of the nearest ancestor that has one on the same GPU type.
    assert by_number[failed]["speedup"] is None
    assert by_number[elsewhere]["speedup_over"] is None
    assert (by_number[last]["speedup_over"], by_number[last]["speedup"]) == (both, 2.0)
    assert [by_number[number]["participant"] for number in (first, second)] == ["Ada", "Eve"]
    # A detected copy has the same tree, and is a child of what it resembles.
    assert outline(await tree(reads, copy)) == [
        (-1, first, []),
        (0, copy, [(first, "detected")]),
    ]
    (parent,) = (await tree(reads, copy))[1]["parents"]
    assert parent["similarity"] == 1.0


async def test_the_same_parents_are_found_again_from_the_log(reads: Reads) -> None:
    numbers = [
        await submitted(reads, source, Life(f"s{at}", account, 100.0, problem_number=ALWAYS))
        for at, (account, source) in enumerate(
            [("ada", ROWS), ("eve", OTHER), ("eve", TUNED), ("grace", CHANGED)]
        )
    ]
    before = [await tree(reads, number) for number in numbers]
    assert outline(before[3])[-1] == (0, numbers[3], [(numbers[2], "detected")])
    async with await connect(reads.dsn, "retrieval") as connection:
        await connection.execute(b"truncate source_text, near_copy, problem_text")
    result = await replayed(reads.dsn, reads.log, switch=True)
    assert (result.is_compared, result.is_switched, result.differences) == (True, True, [])
    # A tree may be complete again only after another pass.
    assert [await tree(reads, number) for number in numbers] == before


async def test_who_may_not_read_both_sources_learns_of_no_detected_parent(reads: Reads) -> None:
    hidden = await submitted(reads, ROWS, Life("s1", "ada", problem_number=OWNERS))
    child = await submitted(reads, TUNED, Life("s2", "eve", problem_number=ALWAYS))
    declared = await submitted(
        reads, CHANGED, Life("s3", "ada", parent=hidden, problem_number=OWNERS)
    )
    private = await submitted(reads, OTHER, Life("s4", "ada", mode="test", parent=hidden))
    later = await submitted(reads, CHANGED, Life("s5", "grace", problem_number=LATER))

    async def numbers(number: int, headers: dict[str, str]) -> set[int]:
        return {member["number"] for member in await tree(reads, number, headers)}

    assert await numbers(hidden, STAFF) == {hidden, child, declared, private, later}
    # Whoever reads neither source sees only what was declared, and no submission in mode test.
    for headers in (as_(None), as_("grace"), as_("eve")):
        assert await numbers(hidden, headers) == {hidden, declared}
        assert await numbers(child, headers) == {child}
    # Ada reads her own sources and Eve's, which is public; not that of Grace.
    assert await numbers(hidden, as_("ada")) == {hidden, child, declared, private}
    members = {member["number"]: member for member in await tree(reads, hidden, as_("ada"))}
    kinds = [(it["number"], it["kind"]) for it in members[declared]["parents"]]
    assert kinds == [(hidden, "declared"), (child, "detected")]
    assert members[declared]["parents"][0]["similarity"] is None
    answer = await reads.http.get(f"/v1/submissions/{private}/lineage", headers=as_("eve"))
    missing = await reads.http.get("/v1/submissions/999999/lineage", headers=as_("eve"))
    assert (answer.status_code, missing.status_code) == (404, 404)
    assert answer.json()["code"] == missing.json()["code"] == "unknown_submission"
    # The embargo of a version ends with the deadline; a closed leaderboard hides the whole tree.
    assert [it["parents"] for it in await tree(reads, later, as_("eve"))] == [[]]
    change = events.LeaderboardChanged(
        reason="", visibility=None, has_deadline=True, deadline_at=now() - timedelta(hours=1)
    )
    await say(reads.log, subjects.problem("identity"), change)
    await reads.settle()
    assert [it["parents"] for it in await tree(reads, later, as_("eve"))] == [[]]
    withdrawn = events.SubmissionWithdrawn(reason="mine")
    await say(reads.log, subjects.moderation("s2"), withdrawn)
    await reads.settle()
    assert await numbers(hidden, as_("ada")) == {hidden, declared, private, later}
    closed = events.LeaderboardChanged(reason="", visibility="closed")
    await say(reads.log, subjects.problem("identity"), closed)
    await reads.settle()
    answer = await reads.http.get(f"/v1/submissions/{hidden}/lineage", headers=as_("eve"))
    assert answer.status_code == 404


async def test_a_large_family_is_listed_in_part(reads: Reads) -> None:
    first = await submitted(reads, OTHER, Life("s0", "ada", 500.0))
    lives = [Life(f"c{number:02}", "eve", 100.0, parent=first) for number in range(11)]
    await reads.ended(*lives)
    members = await tree(reads, first)
    assert [member["generation"] for member in members] == [0] + [1] * 8
    assert members[0]["more_children"] == 3
    parent = members[-1]["number"]
    for generation in range(14):
        parent = await submitted(
            reads, SMALL % generation, Life(f"g{generation:02}", parent=parent)
        )
    line = await tree(reads, parent)
    assert [member["generation"] for member in line] == list(range(-12, 1))
    # Of the oldest one shown, the parent is named, but not listed.
    assert line[0]["parents"]
    descendants = await tree(reads, first)
    assert max(member["generation"] for member in descendants) == 5
    assert descendants[-1]["more_children"] == 1
