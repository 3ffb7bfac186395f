"""The read API: read models as JSON, each answer with the sequence it was read at."""

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import FastAPI, Query

from ranker.service import Alive, News, Reads
from shared.errors import Failed, Refused
from shared.http import install

WAIT_S_MAX = 25.0
LAG_S_MAX = 5.0
LIMIT_MAX = 200

Row = dict[str, Any]
Wait = Annotated[float, Query(ge=0, le=WAIT_S_MAX)]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]


def application(
    reader: Reads, news: News, live: Alive, last: Callable[[], Awaitable[int]]
) -> FastAPI:
    """The read side of the public API; `last` is the sequence of the log's newest event."""
    app = FastAPI(title="Warpboard reads", docs_url=None, redoc_url=None)
    install(app)
    _lists(app, reader, news)
    _submissions(app, reader, news, live, last)
    _boards(app, reader)

    @app.get("/v1/agents")
    async def agents() -> dict[str, Any]:
        """Who registered, and who of them is alive."""
        alive = live.alive()
        rows = await reader.rows("agents")
        for row in rows:
            offer = alive.get(row["id"], {})
            row["is_alive"] = row["id"] in alive
            row["is_free"] = bool(offer.get("is_free"))
        return {"items": rows, "as_of": news.seq}

    @app.get("/v1/queue")
    async def queue() -> dict[str, Any]:
        """What is not over yet, by GPU type and state."""
        return {"items": await reader.rows("waiting"), "as_of": news.seq}

    return app


def _boards(app: FastAPI, reader: Reads) -> None:
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
        """One leaderboard, best first."""
        found = await _problem(reader, slug)
        types = {one.lower(): one for one in found["gpus"]}
        if gpu.lower() not in types:
            raise Refused(
                "not_found", f"{slug} has no GPU type {gpu!r}: {', '.join(found['gpus'])}", "gpu"
            )
        number = version or found["number"]
        checkpoint = await reader.rows("checkpoint")
        rows = await reader.rows(
            "leaderboard",
            problem=found["slug"],
            gpu=types[gpu.lower()],
            number=number,
            limit=limit,
        )
        items = [{"rank": rank, **row} for rank, row in enumerate(rows, 1)]
        return {
            "problem": found["slug"],
            "title": found["title"],
            "problem_version": number,
            "gpu": types[gpu.lower()],
            "items": items,
            "as_of": checkpoint[0]["seq"],
        }


async def _problem(reader: Reads, slug: str) -> Row:
    rows = await reader.rows("problems", slug=slug.lower())
    if not rows:
        raise Refused("unknown_problem", f"there is no problem {slug!r}", "problem")
    return rows[0]


def _lists(app: FastAPI, reader: Reads, news: News) -> None:
    @app.get("/v1/submissions")
    async def submissions(
        problem: str | None = None,
        participant: str | None = None,
        before: int | None = None,
        limit: Limit = 50,
    ) -> dict[str, Any]:
        """The newest submissions first; `before` continues a list."""
        rows = await reader.rows(
            "submissions", problem=problem, participant=participant, before=before, limit=limit
        )
        return {"items": rows, "as_of": news.seq}


def _submissions(
    app: FastAPI, reader: Reads, news: News, live: Alive, last: Callable[[], Awaitable[int]]
) -> None:
    @app.get("/v1/submissions/{number}")
    async def submission(number: int, after: int = -1, wait_s: Wait = 0) -> dict[str, Any]:
        """One submission; with `after` (a version seen before), held until there is news."""
        lag_s = LAG_S_MAX if news.seq < number <= await last() else 0
        until = time.monotonic() + max(wait_s, lag_s)
        found = await _submission(reader, live, number)
        while not (_is_news(found, after) or news.is_over):
            if (left := until - time.monotonic()) <= 0:
                break
            await news.wait(left)
            found = await _submission(reader, live, number)
        if found is None and news.seq < number <= await last():
            raise Failed("the read models have not come that far; ask again")
        return _known(found, number)

    @app.get("/v1/submissions/{number}/events")
    async def events(number: int) -> dict[str, Any]:
        """What happened to a submission, in order."""
        found = _known(await _submission(reader, live, number), number)
        return {"items": found["timeline"], "as_of": news.seq}


def _is_news(found: dict[str, Any] | None, after: int) -> bool:
    return found is not None and (found["version"] > after or found["is_over"])


def _known(found: dict[str, Any] | None, number: int) -> dict[str, Any]:
    if found is None:
        raise Refused("unknown_submission", f"there is no submission {number}", "number")
    return found


async def _submission(reader: Reads, live: Alive, number: int) -> dict[str, Any] | None:
    rows = await reader.rows("submission", number=number)
    if not rows:
        return None
    row = rows[0]
    timeline = await reader.rows("history", id=row["id"])
    is_over = row["state"] == "finished"
    shown = {
        "version": timeline[-1]["seq"] if timeline else number,
        "is_over": is_over,
        "timeline": timeline,
        "progress": None if is_over else live.progress.get(row["id"]),
        "queue": await _queue(reader, live, row),
        "ranking": await _ranking(reader, row) if is_over else None,
    }
    return row | shown


async def _queue(reader: Reads, live: Alive, row: Row) -> dict[str, Any] | None:
    if row["state"] not in ("received", "queued"):
        return None
    ahead = await reader.rows("jobs_ahead", gpu=row["gpu"], number=row["number"])
    offers = live.alive().values()
    online = [offer for offer in offers if offer["registration"]["gpu"] == row["gpu"]]
    busy = [offer for offer in online if not offer.get("is_free")]
    return {
        "state": "queued" if online else "no_agent",
        "ahead": ahead[0]["ahead"],
        "agents_online": len(online),
        "agents_busy": len(busy),
        "reason": None if online else f"no agent with {row['gpu']} is alive",
    }


async def _ranking(reader: Reads, row: Row) -> dict[str, Any]:
    """Where a finished submission stands, or why it is not ranked."""
    place = await reader.rows(
        "place",
        problem=row["problem"],
        problem_number=row["problem_number"],
        gpu=row["gpu"],
        id=row["id"],
    )
    status = "ranked" if row["is_eligible"] else "not_ranked"
    code = row["code"]
    if row["is_eligible"] and not place:
        code = "superseded"
    return {
        "status": status,
        "eligible": row["is_eligible"],
        "code": code,
        "reason": row["reason"],
        "rank": place[0]["place"] if place else None,
        "score_us": row["score_us"],
        "interval_us": [row["low_us"], row["high_us"]] if row["low_us"] is not None else None,
    }
