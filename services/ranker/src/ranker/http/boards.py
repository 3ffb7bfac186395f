"""Problems, their leaderboards, and where a submission stands."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Query

from ranker.domain.score import interval_us
from ranker.domain.ties import Place, Standing, places
from ranker.service import Reads
from shared.errors import Refused

LIMIT_MAX = 200
RANKED_MAX = 10_000

Row = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]


def boards(app: FastAPI, reader: Reads) -> None:
    """The reads of problems and leaderboards."""

    @app.get("/v1/problems")
    async def problems() -> dict[str, Any]:
        """The newest version of each problem."""
        return {"items": await reader.rows("problems", slug=None)}

    @app.get("/v1/problems/{slug}")
    async def problem(slug: str) -> Row:
        """The newest version of one problem."""
        return await _problem(reader, slug)

    @app.get("/v1/leaderboards")
    async def leaderboards() -> dict[str, Any]:
        """Every leaderboard that has an entry."""
        return {"items": await reader.rows("leaderboards")}

    @app.get("/v1/leaderboards/{slug}/{gpu}")
    async def leaderboard(
        slug: str, gpu: str, version: int | None = None, limit: Limit = 100
    ) -> dict[str, Any]:
        """One leaderboard, best first; what cannot be told apart has one rank."""
        found = await _problem(reader, slug)
        types = {one.lower(): one for one in found["gpus"]}
        if gpu.lower() not in types:
            raise Refused(
                "not_found", f"{slug} has no GPU type {gpu!r}: {', '.join(found['gpus'])}", "gpu"
            )
        number = version or found["number"]
        checkpoint = await reader.rows("checkpoint")
        return {
            "problem": found["slug"],
            "title": found["title"],
            "problem_version": number,
            "gpu": types[gpu.lower()],
            "items": await _items(reader, found["slug"], number, types[gpu.lower()], limit),
            "as_of": checkpoint[0]["seq"],
        }


async def _problem(reader: Reads, slug: str) -> Row:
    rows = await reader.rows("problems", slug=slug.lower())
    if not rows:
        raise Refused("unknown_problem", f"there is no problem {slug!r}", "problem")
    return rows[0]


async def _items(reader: Reads, problem: str, version: int, gpu: str, limit: int) -> list[Row]:
    ladder = await _ladder(reader, problem, version, gpu)
    shown = places(_standings(ladder))[:limit]
    rows = await reader.rows(
        "leaderboard",
        problem=problem,
        gpu=gpu,
        problem_version=version,
        numbers=[place.number for place in shown],
    )
    # An entry may have changed between the two reads; then it is shown the next time.
    entries = {row["number"]: row for row in rows}
    return [_item(place, entries[place.number]) for place in shown if place.number in entries]


async def _ladder(reader: Reads, problem: str, version: int, gpu: str) -> list[Row]:
    return await reader.rows("ladder", problem=problem, gpu=gpu, number=version, limit=RANKED_MAX)


def _standings(ladder: Sequence[Row]) -> list[Standing]:
    names = ("number", "score_us", "error", "freedom", "delta")
    return [Standing(**{name: row[name] for name in names}) for row in ladder]


def _item(place: Place, row: Row) -> Row:
    """A row of a leaderboard; a pooled score has an interval of its own."""
    low, high = _interval(row)
    shown = {"rank": place.rank, "is_tied": place.is_tied, "low_us": low, "high_us": high}
    return row | shown


def _interval(row: Row) -> tuple[float | None, float | None]:
    if row["runs"] > 1 and row["error"] is not None:
        return interval_us(row["score_us"], row["error"], row["freedom"])
    return row["low_us"], row["high_us"]


async def ranking(reader: Reads, row: Row) -> Row:
    """Where a finished submission stands, or why it is not ranked."""
    said = {
        "status": "held" if row["is_held"] else "not_ranked",
        "eligible": row["is_eligible"],
        "code": row["code"],
        "reason": row["reason"],
        "rank": None,
        "is_tied": False,
        "runs": 1,
        "score_us": row["score_us"],
        "interval_us": [row["low_us"], row["high_us"]] if row["low_us"] is not None else None,
    }
    if not row["is_eligible"]:
        return said
    said["status"] = "ranked"
    ladder = await _ladder(reader, row["problem"], row["problem_number"], row["gpu"])
    entry = next((one for one in ladder if one["account"] == row["account"]), None)
    if entry is None:  # It lies behind all that are read.
        return said
    if entry["source"] != row["source"]:
        return said | {"code": "superseded"}
    place = next(one for one in places(_standings(ladder)) if one.number == entry["number"])
    if entry["submission"] != row["id"]:
        said["code"] = "pooled"
    return said | {"rank": place.rank, "is_tied": place.is_tied} | _pooled(entry)


def _pooled(entry: Row) -> Row:
    """What several runs of one source say together."""
    if entry["runs"] == 1 or entry["error"] is None:
        return {}
    interval = interval_us(entry["score_us"], entry["error"], entry["freedom"])
    return {"runs": entry["runs"], "score_us": entry["score_us"], "interval_us": list(interval)}
