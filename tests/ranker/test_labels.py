"""The labels of the advisory screen: who sees them, and that they change nothing."""

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ranker.domain import screen_rules
from ranker.retrieval import labels as retrieval
from shared.postgres import connect
from shared.source_files import SourceFile, pack_files
from tests.ranker.replays import replayed
from tests.support.lives import Life
from tests.support.reading import Reads, as_, reading
from tests.support.waits import eventually

pytestmark = pytest.mark.server

PLAIN = b"import torch\n\n\ndef custom_kernel(data):\n    return torch.softmax(data, 1)\n"
KEPT = b"answers = {}\n\n\ndef custom_kernel(data):\n    answers[1] = data\n    return data + 1\n"
PATCHED = b"import time\n\ntime.time = lambda: 0\n" + PLAIN
WAITING = b"import time\n" + PLAIN + b"    time.sleep(1)\n"


@pytest.fixture
async def reads(postgres_dsn: str) -> AsyncIterator[Reads]:
    async with reading(postgres_dsn) as running:
        for name in ("ada", "eve"):
            await running.named(name, name.title())
        yield running


async def submitted(reads: Reads, source: bytes, life: Life) -> int:
    """Let a submission live with a source; its number."""
    blob = await reads.blobs.put(source)
    (page,) = await reads.ended(dataclasses.replace(life, source=blob.digest))
    return int(page["number"])


async def labelled(reads: Reads, query: str = "") -> dict[str, Any]:
    """The list as an operator sees it, once all sources are screened."""

    async def complete() -> list[dict[str, Any]]:
        body = await reads.get(f"admin/labels?{query}")
        return [body] if body["is_complete"] else []

    (body,) = await eventually(complete)
    return dict(body)


def outline(body: dict[str, Any]) -> list[tuple[int, list[tuple[str, list[int]]]]]:
    return [
        (
            item["number"],
            [(it["rule"], [place["line"] for place in it["places"]]) for it in item["labels"]],
        )
        for item in body["items"]
    ]


@pytest.mark.feature("A6")
async def test_staff_list_labelled_submissions_with_their_evidence(reads: Reads) -> None:
    plain = await submitted(reads, PLAIN, Life("s1", "ada", 100.0))
    patched = await submitted(reads, PATCHED, Life("s2", "eve", 90.0))
    waiting = await submitted(reads, WAITING, Life("s3", "eve", 80.0))
    kept = await submitted(reads, KEPT, Life("s4", "ada", 70.0))
    private = await submitted(reads, PATCHED + b"#", Life("s5", "ada", mode="test"))
    whole = await labelled(reads)
    patch, sleep = ("timer_patched", [3]), ("sleep_called", [7])
    assert outline(whole) == [(waiting, [sleep]), (patched, [patch])]
    assert whole["items"][0]["participant"] == "Eve"
    assert whole["next_before"] is None
    # A rule, a severity, a problem and a page.
    assert outline(await labelled(reads, "severity=low"))[0][0] == kept
    assert outline(await labelled(reads, "rule=state_kept")) == [(kept, [("state_kept", [5])])]
    assert outline(await labelled(reads, "problem=other")) == []
    page = await labelled(reads, "limit=1")
    assert page["next_before"] == waiting
    assert outline(await labelled(reads, f"limit=1&before={waiting}")) == [(patched, [patch])]
    wrong = await reads.http.get("/v1/admin/labels?rule=timer_patch")
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "rule")
    assert "timer_patched" in wrong.json()["detail"]
    # One submission, with the lines; in any mode.
    (label,) = (await reads.get(f"admin/labels/{patched}"))["labels"]
    (place,) = label["evidence"]
    assert (place["line"], place["excerpt"]) == (3, "time.time = lambda: 0")
    assert label["severity"] == "high"
    assert label["page"] == "/guide/docs/advisory-screen#timer_patched"
    assert (await reads.get(f"admin/labels/{private}"))["labels"][0]["rule"] == "timer_patched"
    assert (await reads.get(f"admin/labels/{plain}"))["labels"] == []
    # They change no rank, and nobody else sees them.
    assert [row["number"] for row in await reads.board()] == [kept, waiting]
    for headers in (as_("eve"), as_("ada"), as_(None)):
        for path in ("labels", f"labels/{patched}"):
            answer = await reads.http.get(f"/v1/admin/{path}", headers=headers)
            assert answer.status_code in (401, 403)
    gone = await reads.http.get("/v1/admin/labels/999999")
    assert gone.status_code == 404


async def test_each_file_of_a_submission_is_screened_in_its_language(reads: Reads) -> None:
    files = [
        SourceFile("kernel.py", PLAIN),
        SourceFile("clock.h", b"inline long now() {\n  return clock64();\n}\n"),
        SourceFile("lib/wait.py", b"import time\ntime.sleep(1)\n"),
        SourceFile("notes.txt", b"time.sleep(1); fork();"),
    ]
    number = await submitted(reads, pack_files(files), Life("s1", "ada", 100.0))
    labels = (await reads.get(f"admin/labels/{number}"))["labels"]
    assert [(it["rule"], it["evidence"]) for it in labels] == [
        ("sleep_called", [{"file": "lib/wait.py", "line": 2, "excerpt": "time.sleep(1)"}]),
        ("clock_read", [{"file": "clock.h", "line": 2, "excerpt": "return clock64();"}]),
    ]


async def test_labels_are_the_same_from_nothing_and_follow_the_version(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, source in enumerate((PLAIN, KEPT, PATCHED, WAITING)):
        await submitted(reads, source, Life(f"s{number}", "ada", 100.0))
    before = outline(await labelled(reads, "severity=low"))
    assert len(before) == 3
    async with await connect(reads.dsn, "retrieval") as connection:
        await connection.execute(b"truncate source_labels")
    result = await replayed(reads.dsn, reads.log, switch=True)
    assert (result.is_compared, result.is_switched, result.differences) == (True, True, [])
    assert outline(await labelled(reads, "severity=low")) == before
    # A row of another version is computed again.
    async with await connect(reads.dsn, "retrieval") as connection:
        await connection.execute(b"update source_labels set findings = '[]', rules = '{}'")
    assert outline(await labelled(reads, "severity=low")) == []
    monkeypatch.setattr(retrieval, "SCREEN_VERSION", screen_rules.SCREEN_VERSION + 1)
    assert outline(await labelled(reads, "severity=low")) == before
