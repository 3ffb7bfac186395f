"""The search of the archive: what matches, in which order, and who sees it."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from shared import events, subjects
from shared.clock import now
from shared.problems.compilation import compile_problem
from shared.reader import READER_HEADER, Reader, encode_reader
from tests.ranker.replays import replayed
from tests.support.lives import Life, problem, say
from tests.support.reading import STAFF, Reads, as_, reading
from tests.support.waits import eventually

pytestmark = pytest.mark.server

FOLDER = Path(__file__).parents[2] / "problems"
SOLUTIONS = FOLDER / "softmax" / "solutions" / "correct"
TRITON = (SOLUTIONS / "triton_rows.py").read_bytes()
TORCH = (SOLUTIONS / "torch_softmax.py").read_bytes()
NUMBA = (SOLUTIONS / "numba_fused.py").read_bytes()
HIST = (FOLDER / "histogram" / "solutions" / "correct" / "torch_bincount.py").read_bytes()
# The Triton kernel by somebody who changed its names, its comments and a number.
COPY = b"# Faster!\n" + TRITON.replace(b"rows", b"lines").replace(b"cols", b"width")
SECRET = (
    b"import torch\n# the secret trick\ndef custom_kernel(data):\n    return torch.sort(data)\n"
)


@pytest.fixture
async def reads(postgres_dsn: str) -> AsyncIterator[Reads]:
    """A problem whose sources everybody reads, and one whose sources are their owners' alone."""
    async with reading(postgres_dsn) as running:
        for name in ("ada", "grace", "eve"):
            await running.named(name, name.title())
        folder = FOLDER / "softmax"
        files = {
            str(item.relative_to(folder)): item.read_bytes()
            for item in folder.rglob("*")
            if item.is_file() and "__pycache__" not in item.parts
        }
        version = compile_problem("identity", files)
        for data in version.files.values():
            await running.blobs.put(data)
        manifest = await running.blobs.put(version.manifest)
        for number, policy in ((2, "always"), (3, "owner"), (4, "after_close")):
            fact = replace(problem(number), manifest=manifest, source_visible=policy)
            await say(running.log, subjects.problem("identity"), fact)
        lives = [
            ("1", "ada", TRITON, 100.0, 2),
            ("2", "grace", TORCH, 300.0, 2),
            ("3", "eve", COPY, 120.0, 2),
            ("4", "ada", HIST, 500.0, 2),
            ("5", "ada", SECRET, 50.0, 3),
            ("6", "grace", NUMBA, 90.0, 4),
        ]
        sources = [await running.blobs.put(source) for _, _, source, _, _ in lives]
        await running.ended(
            *(
                Life(f"s{id_}", account, time_us, source=blob.digest, problem_number=number)
                for (id_, account, _, time_us, number), blob in zip(lives, sources, strict=True)
            )
        )
        yield running


async def search(reads: Reads, query: str = "", account: str | None = None) -> list[dict[str, Any]]:
    """The lines of a search as a participant, or nobody, sees them."""

    async def found() -> list[list[dict[str, Any]]]:
        answer = await reads.http.get(f"/v1/archive/search?{query}", headers=as_(account))
        assert answer.status_code == 200, answer.text
        return [answer.json()["items"]] if answer.json()["is_complete"] else []

    (lines,) = await eventually(found)
    return list(lines)


async def by_source(reads: Reads, source: bytes, **more: object) -> list[dict[str, Any]]:
    """The lines of a search for kernels that resemble a source."""
    body = {"source": source.decode(), **more}
    answer = await reads.http.post("/internal/archive/search", json=body, headers=as_(None))
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


async def numbers(reads: Reads) -> dict[str, int]:
    """The number of each submission by its id."""
    return {row["id"]: row["number"] for row in (await reads.get("submissions"))["items"]}


async def test_words_and_sources_find_kernels_and_say_why(reads: Reads) -> None:
    number = await numbers(reads)
    lines = await search(reads, "q=online+softmax+of+rows")
    assert [line["number"] for line in lines[:2]] == [number["s1"], number["s2"]]
    assert "softmax" in lines[0]["reason"]
    # A misspelt word finds the same kernels.
    assert await search(reads, "q=sofmax")
    # The copy with other names is folded into the kernel that it copies.
    assert lines[0]["copies"] == [number["s3"]]
    assert number["s3"] not in [line["number"] for line in lines]
    similar = await by_source(reads, COPY)
    assert {similar[0]["number"], *similar[0]["copies"]} == {number["s1"], number["s3"]}
    assert similar[0]["similarity"] > 0.85
    assert "of the code is alike" in similar[0]["reason"]
    like = await search(reads, f"like={number['s4']}")
    assert (like[0]["number"], like[0]["similarity"]) == (number["s4"], 1.0)


async def test_filters_and_pages_narrow_a_search(reads: Reads) -> None:
    number = await numbers(reads)
    everything = [line["number"] for line in await search(reads)]
    # Without a query the fastest of the leaderboard is first.
    assert everything == [number["s1"], number["s2"], number["s4"]]
    assert await search(reads, "operation=softmax&gpu=cpu&language=python&problem=Identity")
    assert await search(reads, "operation=convolution") == []
    assert await search(reads, "language=cuda") == []
    assert await search(reads, "gpu=H100") == []
    paged, cursor = [], ""
    for _ in everything:
        answer = await reads.http.get(f"/v1/archive/search?limit=1{cursor}", headers=as_(None))
        paged += [line["number"] for line in answer.json()["items"]]
        cursor = f"&cursor={answer.json()['next_cursor']}"
    assert paged == everything
    assert cursor == "&cursor=None"


async def test_a_search_shows_only_what_its_reader_may_read(reads: Reads) -> None:
    number = await numbers(reads)
    public = {number["s1"], number["s2"], number["s3"], number["s4"]}

    async def visible(headers: dict[str, str]) -> set[int]:
        await search(reads)
        answer = await reads.http.get("/v1/archive/search", headers=headers)
        items = answer.json()["items"]
        assert "secret" not in answer.text or headers == STAFF or "ada" in str(headers)
        return {item for line in items for item in (line["number"], *line["copies"])}

    assert await visible(as_(None)) == public
    assert await visible(as_("eve")) == public
    assert await visible(as_("ada")) == public | {number["s5"]}
    assert await visible(as_("grace")) == public | {number["s6"]}
    assert await visible(STAFF) == public | {number["s5"], number["s6"]}
    limited = {READER_HEADER: encode_reader(Reader(account="ada", problems=["matmul"]))}
    assert await visible(limited) == public
    # A private source is no query for others either.
    answer = await reads.http.get(f"/v1/archive/search?like={number['s5']}", headers=as_("eve"))
    assert (answer.status_code, answer.json()["code"]) == (403, "no_access")
    assert answer.json()["errors"][0]["field"] == "like"

    async def board(**change: Any) -> None:
        fact = events.LeaderboardChanged(reason="", **{"visibility": None, **change})
        await say(reads.log, subjects.problem("identity"), fact)
        await reads.settle()

    # An embargo ends with the deadline, and begins again if that moves.
    await board(has_deadline=True, deadline_at=now() - timedelta(hours=1))
    assert await visible(as_(None)) == public | {number["s6"]}
    await board(has_deadline=True, deadline_at=now() + timedelta(hours=1))
    assert await visible(as_(None)) == public
    await board(visibility="closed")
    assert await visible(as_(None)) == set()
    assert await visible(as_("eve", "identity")) == public
    await board(visibility="public")
    # A withdrawn kernel vanishes for all, its owner and staff included.
    fact = events.SubmissionWithdrawn(reason="mine")
    await say(reads.log, subjects.moderation("s2"), fact)
    await reads.settle()
    for headers in (as_(None), as_("grace"), STAFF):
        assert number["s2"] not in await visible(headers)


async def test_a_bad_search_names_the_field(reads: Reads) -> None:
    for field, query in (
        ("limit", "limit=0"),
        ("limit", "limit=101"),
        ("like", "like=0"),
        ("q", "q=" + "x" * 501),
        ("language", "language=cobol"),
        ("problem", "problem=never"),
        ("cursor", "cursor=nothing"),
    ):
        answer = await reads.http.get(f"/v1/archive/search?{query}", headers=as_(None))
        assert answer.status_code in (400, 404, 422), answer.text
        assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_read_models_folded_again_find_the_same(reads: Reads) -> None:
    before = await search(reads, "q=softmax")
    result = await replayed(reads.dsn, reads.log, switch=True)
    assert (result.is_compared, result.is_switched, result.differences) == (True, True, [])
    assert await search(reads, "q=softmax") == before
