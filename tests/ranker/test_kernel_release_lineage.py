"""The lineage in releases: declared and detected parents, and when a row joins or leaves."""

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import structs

from ranker.releases.builder import Dataset, build_release
from ranker.releases.files import read_rows
from shared import events, subjects
from tests.ranker.test_lineage import CHANGED, OTHER, ROWS, SMALL, TUNED
from tests.support.lives import T0, Life, live, problem, say
from tests.support.memory import MemoryBlobStore, MemoryLog

KEY = b"k" * 32
OPEN, LATER, NEVER = 1, 2, 3
Row = Mapping[str, Any]


class Releases:
    """A log with a problem, and a data set that is released from it."""

    def __init__(self, folder: Path) -> None:
        self.log, self.blobs = MemoryLog(), MemoryBlobStore()
        self.dataset = Dataset(folder / "kernels", KEY, "MIT", (), folder / "signatures")

    async def publish(self) -> None:
        """Publish a version for each time at which its sources are published; all choose MIT."""
        policies = ((OPEN, "always"), (LATER, "after_close"), (NEVER, "never"))
        for number, policy in policies:
            fact = structs.replace(problem(number), publish=policy)
            await say(self.log, subjects.problem("identity"), fact)
        for account in ("ada", "eve", "grace"):
            await self.choose(account, "MIT")

    async def choose(self, account: str, licence: str) -> None:
        """Let somebody choose the licence of their sources."""
        choice = events.PreferenceSet(preference="licence", value=licence)
        await say(self.log, subjects.account(account), choice)

    async def submit(self, source: bytes, life: Life) -> int:
        """Let a submission live with a source; its number."""
        blob = await self.blobs.put(source)
        await live(self.log, dataclasses.replace(life, source=blob.digest))
        received = await self.log.history(subjects.submission(life.id))
        return received[0].seq

    async def rows(self, dataset: Dataset | None = None) -> list[Row]:
        """Release what the log has gained; the whole lineage, in the order of its numbers."""
        dataset = dataset or self.dataset
        release = await build_release(self.log, self.blobs, dataset)
        rows = list(read_rows(dataset.folder, release, "lineage"))
        assert release.tables["lineage"].rows == len(rows)
        known = {
            row["number"]: row["participant"]
            for row in read_rows(dataset.folder, release, "submissions")
        }
        sources = {row["submission"] for row in read_rows(dataset.folder, release, "sources")}
        for row in rows:
            assert {row["submission"], row["parent"]} <= sources
            assert known[row["submission"]] == row["participant"]
            assert known[row["parent"]] == row["parent_participant"]
        return sorted(rows, key=lambda row: (row["submission"], row["is_detected"]))


def links(rows: list[Row]) -> list[tuple[int, int, bool]]:
    """The two submissions of each row, and whether it was detected."""
    return [(row["submission"], row["parent"], row["is_detected"]) for row in rows]


async def test_a_release_has_what_was_declared_and_what_was_detected(tmp_path: Path) -> None:
    releases = Releases(tmp_path)
    await releases.publish()
    first = await releases.submit(ROWS, Life("s1", "ada"))
    second = await releases.submit(OTHER, Life("s2", "eve", parent=first))
    copy = await releases.submit(TUNED, Life("s3", "grace"))
    both = await releases.submit(CHANGED, Life("s4", "ada", parent=second))
    test = await releases.submit(OTHER, Life("s5", "ada", mode="test"))
    of_test = await releases.submit(SMALL % 1, Life("s6", "ada", parent=test))
    same = await releases.submit(SMALL % 2, Life("s7", "ada", parent=of_test))
    rows = await releases.rows()
    assert links(rows) == [
        (second, first, False),
        (copy, first, True),
        (both, second, False),
        (both, copy, True),
        (same, of_test, False),
    ]
    declared, detected, _, nearest, confirmed = rows
    assert declared["similarity"] is None
    assert detected["similarity"] == 1.0
    assert 0.7 <= nearest["similarity"] < 1
    assert confirmed["similarity"] == 1.0
    assert len({row["participant"] for row in rows}) == 3
    # A later release adds only what is new, and finds its parent among what was released.
    child = await releases.submit(TUNED + b"\nx = 1\n", Life("s8", "eve"))
    release = await build_release(releases.log, releases.blobs, releases.dataset)
    assert (release.tables["lineage"].added, release.tables["lineage"].removed) == (1, 0)
    again = await releases.rows()
    assert again[:-1] == rows
    assert links(again)[-1] == (child, copy, True)
    # From the whole log, and without kept signatures, it is the same.
    fresh = Dataset(tmp_path / "fresh", KEY, "MIT", ())
    assert await releases.rows(fresh) == again


async def test_a_row_is_released_only_with_the_sources_of_both(tmp_path: Path) -> None:
    releases = Releases(tmp_path)
    await releases.publish()
    early = await releases.submit(ROWS, Life("s1", "ada", problem_number=LATER))
    copy = await releases.submit(TUNED, Life("s2", "eve", problem_number=OPEN))
    child = await releases.submit(OTHER, Life("s3", "ada", parent=early, problem_number=OPEN))
    never = await releases.submit(CHANGED, Life("s4", "grace", problem_number=NEVER))
    last = await releases.submit(CHANGED, Life("s5", "eve", parent=copy, problem_number=OPEN))
    # Its nearest source is one that is never published: nothing says that there is one.
    assert links(await releases.rows()) == [(last, copy, False)]
    assert never not in {number for row in await releases.rows() for number in row.values()}
    over = events.LeaderboardChanged(
        reason="", visibility=None, has_deadline=True, deadline_at=T0 - timedelta(hours=1)
    )
    await say(releases.log, subjects.problem("identity"), over)
    everything = [(copy, early, True), (child, early, False), (last, copy, False)]
    assert links(await releases.rows()) == everything
    # Another licence replaces the row of a source, and no licence takes it and its lineage out.
    for licence, wanted in (("Apache-2.0", everything), ("none", everything[2:])):
        await releases.choose("ada", licence)
        assert links(await releases.rows()) == wanted
    await releases.choose("ada", "MIT")
    assert links(await releases.rows()) == everything
    # A withdrawn submission leaves with every row that names it.
    await say(releases.log, subjects.moderation("s1"), events.SubmissionWithdrawn(reason="mine"))
    assert links(await releases.rows()) == everything[2:]
    closed = events.LeaderboardChanged(reason="", visibility="closed")
    await say(releases.log, subjects.problem("identity"), closed)
    assert await releases.rows() == []
    assert await releases.rows(Dataset(tmp_path / "fresh", KEY, "MIT", ())) == []
