"""Problems, their leaderboards, and where a submission stands."""

from datetime import datetime
from typing import Annotated, Any, Protocol

from fastapi import FastAPI, Query

from ranker.domain.score import interval_us
from ranker.domain.ties import places
from ranker.service import Board, News, Reads
from ranker.service.top import RANKED_MAX, Placed, read_ladder, standings, top
from shared.clock import now
from shared.errors import Refused

LIMIT_MAX = 200

Row = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]


class Past(Protocol):
    """Leaderboards as they were; `past` of the application's state, where they are kept."""

    async def board(self, board: Board, at: datetime, limit: int) -> tuple[int, list[Row]]:
        """The sequence that was the last then, and the rows, best first. Errors: Failed."""
        ...


def boards(app: FastAPI, reader: Reads, news: News) -> None:
    """The reads of problems and leaderboards."""
    _problems(app, reader)

    @app.get("/v1/leaderboards")
    async def leaderboards() -> dict[str, Any]:
        """Every leaderboard that has an entry."""
        return {"items": await reader.rows("leaderboards", at=now())}

    @app.get("/v1/leaderboards/{slug}/{gpu}")
    async def leaderboard(
        slug: str,
        gpu: str,
        version: int | None = None,
        limit: Limit = 100,
        as_of: datetime | None = None,
    ) -> dict[str, Any]:
        """One leaderboard, best first; what cannot be told apart has one rank."""
        found, board = await named(reader, slug, gpu, version)
        if as_of is None:
            (checkpoint,) = await reader.rows("checkpoint")
            seq, items = checkpoint["seq"], await _items(reader, board, limit)
        else:
            seq, items = await _then(app, board, as_of, limit)
        return {
            "problem": board.problem,
            "title": found["title"],
            "problem_version": board.problem_number,
            "gpu": board.gpu,
            "items": items,
            "as_of": seq,
            "as_of_at": as_of,
            "parked": standing(news),
        }

    @app.get("/v1/leaderboards/{slug}/{gpu}/records")
    async def records(
        slug: str, gpu: str, version: int | None = None, limit: Limit = 100
    ) -> dict[str, Any]:
        """The records of a leaderboard, newest first."""
        _, board = await named(reader, slug, gpu, version)
        rows = await reader.rows(
            "records",
            problem=board.problem,
            gpu=board.gpu,
            number=board.problem_number,
            limit=limit,
            at=now(),
        )
        return {"items": rows, "as_of": news.seq}


def _problems(app: FastAPI, reader: Reads) -> None:
    @app.get("/v1/problems")
    async def problems() -> dict[str, Any]:
        """The newest version of each problem."""
        return {"items": await reader.rows("problems", slug=None)}

    @app.get("/v1/problems/{slug}")
    async def problem(slug: str) -> Row:
        """The newest version of one problem."""
        return await _problem(reader, slug)


def standing(news: News) -> Row | None:
    """The event before which the read models stand, None if they follow the log."""
    return None if news.parked is None else news.parked._asdict()


async def named(reader: Reads, slug: str, gpu: str, version: int | None) -> tuple[Row, Board]:
    """A problem and one of its leaderboards, whatever the case of the names. Errors: Refused."""
    found = await _problem(reader, slug)
    types = {one.lower(): one for one in found["gpus"]}
    if gpu.lower() not in types:
        known = ", ".join(found["gpus"])
        raise Refused("not_found", f"{slug} has no GPU type {gpu!r}: {known}", "gpu")
    return found, Board(found["slug"], types[gpu.lower()], version or found["number"])


async def _problem(reader: Reads, slug: str) -> Row:
    rows = await reader.rows("problems", slug=slug.lower())
    if not rows:
        raise Refused("unknown_problem", f"there is no problem {slug!r}", "problem")
    return rows[0]


async def _then(app: FastAPI, board: Board, at: datetime, limit: int) -> tuple[int, list[Row]]:
    past: Past | None = getattr(app.state, "past", None)
    if past is None:
        raise Refused("not_supported", "this ranker has no archive: it keeps no past", "as_of")
    if at.tzinfo is None:
        raise Refused("invalid_request", f"as_of {at} has no zone: end it with Z", "as_of")
    return await past.board(board, at, limit)


async def _items(reader: Reads, board: Board, limit: int) -> list[Row]:
    placed = (await top(reader, board, limit, now()))[:limit]
    rows = await reader.rows(
        "shown",
        submissions=[one.row["submission"] for one in placed],
        problem_number=board.problem_number,
    )
    # An entry may have changed between the two reads; then it is shown the next time.
    shown = {row["number"]: row for row in rows}
    return [_item(one, shown[one.place.number]) for one in placed if one.place.number in shown]


def _item(placed: Placed, shown: Row) -> Row:
    """A row of a leaderboard; a pooled score has an interval of its own."""
    entry, place = placed.row, placed.place
    low, high = shown["low_us"], shown["high_us"]
    if entry["runs"] > 1 and entry["error"] is not None:
        low, high = interval_us(entry["score_us"], entry["error"], entry["freedom"])
    own = {"rank": place.rank, "is_tied": place.is_tied, "low_us": low, "high_us": high}
    names = ("score_us", "error", "freedom", "delta", "runs")
    return shown | {name: entry[name] for name in names} | own


async def ranking(reader: Reads, row: Row, decided: Row, at: datetime) -> Row:
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
    against = _against(decided)
    if against is not None:
        return said | against
    if not row["is_eligible"]:
        return said
    said["status"] = "ranked"
    board = Board(row["problem"], row["gpu"], row["problem_number"])
    ladder = await read_ladder(reader, board, RANKED_MAX, at)
    entry = next((one for one in ladder if one["account"] == row["account"]), None)
    if entry is None:  # It lies behind all that are read.
        return said
    if entry["source"] != row["source"]:
        return said | {"code": "superseded"}
    place = next(one for one in places(standings(ladder)) if one.number == entry["number"])
    if entry["submission"] != row["id"]:
        said["code"] = "pooled"
    return said | {"rank": place.rank, "is_tied": place.is_tied} | _pooled(entry)


def _against(decided: Row) -> Row | None:
    """What people decided against a submission or its participant, with their reason."""
    if decided["is_disqualified"]:
        return {"status": "disqualified", "code": "disqualified", "reason": decided["reason"]}
    if decided["is_held"]:
        return {"status": "held", "code": "held", "reason": decided["reason"]}
    if decided["banned_at"] is not None:
        return {"status": "banned", "code": "account_banned", "reason": decided["ban_reason"]}
    return None


def _pooled(entry: Row) -> Row:
    """What several runs of one source say together."""
    if entry["runs"] == 1 or entry["error"] is None:
        return {}
    interval = interval_us(entry["score_us"], entry["error"], entry["freedom"])
    return {"runs": entry["runs"], "score_us": entry["score_us"], "interval_us": list(interval)}
