"""Leaderboards as Parquet files: all of it in private, in public what everybody sees."""

import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

from ingest.popcorn import exports as made
from ingest.popcorn.conversions import leaderboard_id
from ingest.popcorn.exports import parquet
from tests.contract_popcorn.polling import HONEST, refusal, submit, wait_until_done
from tests.contract_popcorn.wire import Wire
from tests.support.waits import until

COLUMNS = {"number": "int64", "text": "string", "at": "instant"}
AT = datetime(2026, 1, 2, 3, tzinfo=UTC)
MARK = b"# nobody else may read this line\n"


async def rows(count: int) -> AsyncIterator[dict[str, Any]]:
    for number in range(count):
        yield {"number": number, "text": None if number % 2 else "é", "at": AT}


def read(data: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    return rows


async def test_a_file_is_written_in_pieces_and_read_whole() -> None:
    count = 2 * made.ROWS_MAX + 1
    pieces = [piece async for piece in parquet(rows(count), COLUMNS)]
    assert len(pieces) == 4
    rows_read = read(b"".join(pieces))
    assert [row["number"] for row in rows_read] == list(range(count))
    assert rows_read[0] == {"number": 0, "text": "é", "at": AT}
    with pytest.raises(pyarrow.ArrowInvalid):
        read(b"".join(pieces[:-1]))


async def test_nothing_is_a_file_too() -> None:
    assert read(b"".join([piece async for piece in parquet(rows(0), COLUMNS)])) == []


def wanted(slug: str, *, private: bool, name: str = "set.parquet") -> dict[str, Any]:
    return {"leaderboard_ids": [leaderboard_id(slug)], "filename": name, "private": private}


@pytest.mark.server
def test_a_private_export_has_every_submission_with_its_source(admin: Wire, ada: Wire) -> None:
    number = submit(ada, "test", HONEST + MARK)
    wait_until_done(ada, number)
    answer = admin.post_json("/admin/export", wanted("identity", private=True))
    assert answer.status == 200, answer.body
    assert answer.headers["content-disposition"] == 'attachment; filename="set.parquet"'
    rows = {row["submission_id"]: row for row in read(answer.body)}
    mine = rows[number]
    assert mine["code"].encode() == HONEST + MARK
    assert (mine["mode"], mine["user_name"], mine["done"]) == ("test", "ada", True)
    # It has no baselines, and is of no level.
    assert {mine[name] for name in made.COMPARISONS} == {None}
    numbers = admin.get("/admin/leaderboards/identity/submissions?limit=1000").json()
    assert set(numbers["submission_ids"]) <= set(rows)

    def is_told() -> bool:
        acts = admin.get("/v1/admin/audit").json()["items"]
        return any("export" in str(act["data"]) for act in acts)

    # What ingest does is in the log at once; ranker shows it when it has folded it.
    until(is_told)


@pytest.mark.server
def test_what_is_not_over_is_exported_in_private_alone(admin: Wire, ada: Wire) -> None:
    running = wanted("identity", private=False)
    refusal(admin.post_json("/admin/export", running), 409, "private_only")
    unknown = wanted("nothing", private=True)
    refusal(admin.post_json("/admin/export", unknown), 404, "unknown_leaderboard")
    away = wanted("identity", private=True, name="../set.parquet")
    assert admin.post_json("/admin/export", away).status == 422
    refusal(ada.post_json("/admin/export", running), 401, "missing_credential")
