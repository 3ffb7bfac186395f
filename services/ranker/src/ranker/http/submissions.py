"""Submissions: lists, each one whole, and what it waits for."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Query

from ranker.http.boards import Limit, ranking
from ranker.service import Alive, News, Reads
from shared.errors import Failed, Refused
from shared.events import FIRST_MODES

WAIT_S_MAX = 25.0
LAG_S_MAX = 5.0
REASON_LENGTH_MAX = 1000

Row = dict[str, Any]
Wait = Annotated[float, Query(ge=0, le=WAIT_S_MAX)]


def submissions(
    app: FastAPI, reader: Reads, news: News, live: Alive, last: Callable[[], Awaitable[int]]
) -> None:
    """The reads of submissions; `last` is the sequence of the log's newest event."""
    _lists(app, reader, news)
    _whole(app, reader, news, live, last)


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


def _whole(
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
        "ranking": await ranking(reader, row) if is_over else None,
    }
    return row | shown


async def _queue(reader: Reads, live: Alive, row: Row) -> dict[str, Any] | None:
    if row["state"] not in ("received", "queued"):
        return None
    ahead = await reader.rows("jobs_ahead", gpu=row["gpu"], number=row["number"])
    offers = live.alive()
    online = {
        name: offer for name, offer in offers.items() if offer["registration"]["gpu"] == row["gpu"]
    }
    fit = [offer for offer in online.values() if _refusal(offer, row["mode"]) is None]
    busy = [offer for offer in fit if not offer.get("is_free")]
    return {
        "state": "queued" if fit else "no_agent",
        "ahead": ahead[0]["ahead"],
        "agents_online": len(online),
        "agents_busy": len(busy),
        "reason": None if fit else _nobody(online, row["gpu"], row["mode"]),
    }


def _nobody(online: Mapping[str, Row], gpu: str, mode: str) -> str:
    """Why no agent may take a job."""
    if not online:
        return f"no agent with {gpu} is alive"
    why = "; ".join(f"agent {name}: {_refusal(offer, mode)}" for name, offer in online.items())
    return f"no living agent with {gpu} takes mode {mode}: {why}"[:REASON_LENGTH_MAX]


def _refusal(offer: Row, mode: str) -> str | None:
    """Why an agent does not take a mode, None if it does."""
    said = offer["registration"]
    if said.get("quarantine"):
        return f"in quarantine: {said['quarantine']}"
    if mode in said.get("modes", FIRST_MODES):
        return None
    return str(said.get("details", {}).get(f"{mode}_not_offered", "not offered"))
