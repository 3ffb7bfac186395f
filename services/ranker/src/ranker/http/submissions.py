"""Submissions: lists, each one whole, and what it waits for."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Query

from ranker.http.boards import Limit, ranking, standing
from ranker.http.waiting import expected
from ranker.service import Alive, News, Reads
from shared.clock import now
from shared.errors import Failed, Refused
from shared.states import STATES, state_deadline

WAIT_S_MAX = 25.0
LAG_S_MAX = 5.0
LINE = ("seq", "type", "at", "note", "actor")

Row = dict[str, Any]
Wait = Annotated[float, Query(ge=0, le=WAIT_S_MAX)]


@dataclass(frozen=True)
class Submissions:
    """The reads of submissions; `last` is the sequence of the log's newest event."""

    reader: Reads
    news: News
    live: Alive
    last: Callable[[], Awaitable[int]]

    def install(self, app: FastAPI) -> None:
        """Answer on an application."""
        app.get("/v1/submissions")(self.newest)
        app.get("/v1/submissions/{number}")(self.one)
        app.get("/v1/submissions/{number}/events")(self.events)

    async def newest(
        self,
        problem: str | None = None,
        participant: str | None = None,
        before: int | None = None,
        limit: Limit = 50,
    ) -> dict[str, Any]:
        """The newest submissions first; `before` continues a list."""
        rows = await self.reader.rows(
            "submissions", problem=problem, participant=participant, before=before, limit=limit
        )
        items = [row | _state(row) for row in rows]
        return {"items": items, "as_of": self.news.seq, "parked": standing(self.news)}

    async def one(self, number: int, after: int = -1, wait_s: Wait = 0) -> dict[str, Any]:
        """One submission; with `after` (a version seen before), held until there is news."""
        lag_s = LAG_S_MAX if self.news.seq < number <= await self.last() else 0
        until = time.monotonic() + max(wait_s, lag_s)
        found = await self._submission(number)
        while not (_is_news(found, after) or self.news.is_over):
            if (left := until - time.monotonic()) <= 0:
                break
            await self.news.wait(left)
            found = await self._submission(number)
        if found is None and self.news.seq < number <= await self.last():
            raise Failed(_behind(self.news))
        return _known(found, number)

    async def events(self, number: int) -> dict[str, Any]:
        """What happened to a submission, in order."""
        found = _known(await self._submission(number), number)
        return {"items": found["timeline"], "as_of": self.news.seq}

    async def _submission(self, number: int) -> dict[str, Any] | None:
        at = now()
        rows = await self.reader.rows("submission", number=number, at=at)
        if not rows:
            return None
        row = rows[0]
        decided = row.pop("decided")
        timeline = [dict(zip(LINE, line, strict=False)) for line in row.pop("timeline")]
        is_over = row["state"] == "finished"
        shown = {
            "version": timeline[-1]["seq"] if timeline else number,
            "is_over": is_over,
            "timeline": timeline,
            "progress": None if is_over else self.live.progress.get(row["id"]),
            "queue": await expected(self.reader, self.live, row),
            "moderation": _moderation(decided),
            "ranking": await ranking(self.reader, row, decided, at) if is_over else None,
            "results": await self.reader.rows("results", id=row["id"]) if is_over else [],
        }
        return row | _state(row) | shown


def _state(row: Row) -> Row:
    """By when a submission must leave its state, and who must see to it."""
    state = STATES.get(row["state"])
    until_at = None
    if state is not None:
        until_at = state_deadline(
            row["state"], row["deadline_at"], row["state_since"], row["lease_until_at"]
        )
    return {"state_deadline_at": until_at, "state_owner": state.owner if state else None}


def _moderation(decided: Row) -> Row | None:
    """What people decided about a submission; None if nobody did."""
    is_said = decided["decided_at"] is not None or decided["appealed_at"] is not None
    return decided if is_said or decided["banned_at"] is not None else None


def _behind(news: News) -> str:
    if news.parked is not None:
        return f"the read models stand before event {news.parked.seq}: an operator has to look"
    return "the read models have not come that far; ask again"


def _is_news(found: dict[str, Any] | None, after: int) -> bool:
    return found is not None and (found["version"] > after or found["is_over"])


def _known(found: dict[str, Any] | None, number: int) -> dict[str, Any]:
    if found is None:
        raise Refused("unknown_submission", f"there is no submission {number}", "number")
    return found
