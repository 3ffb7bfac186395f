"""Submissions: lists, each one whole, and what it waits for."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, cast
from urllib.parse import quote

from fastapi import FastAPI, Query, Request
from pydantic import Field

from ranker.domain.score import with_interval
from ranker.domain.story import End, public_name
from ranker.http import cursors
from ranker.http.access import Asker, Seen, safe_progress, unknown
from ranker.http.answers import (
    LIMIT_MAX,
    NUMBER_MAX,
    Asking,
    NumberInPath,
    Paged,
    answered,
    version_known,
)
from ranker.http.boards import standing
from ranker.http.goals import compared
from ranker.http.moments import Moment, Moments
from ranker.http.ranks import ranking, seconds
from ranker.http.roofs import told
from ranker.http.shapes import submissions as shapes
from ranker.http.sources import source_text
from ranker.http.waiting import expected
from ranker.service import Alive, Board, News, Reads
from shared.answers import Answer
from shared.blobs import Blobs
from shared.clock import now
from shared.errors import Refused
from shared.states import STATES, state_deadline

WAIT_S_MAX = 25.0
# What moves without an event of its own is seen this late.
LOOK_S = 1.0
LINE = ("seq", "type", "at", "note", "actor")
# Which state an event leads to.
MOVES = {
    "SubmissionReceived": "queued",
    "JobQueued": "queued",
    "JobRequeued": "queued",
    "JobLeased": "assigned",
    "RunStarted": "running",
    "RunCompleted": "ranking",
    "SubmissionFinished": "finished",
    "SubmissionRejected": "finished",
}
KINDS = {"log.txt": "log", "samples.json.gz": "samples"}

Row = dict[str, Any]


class NewestQuery(Asking):
    """Which submissions; a state is one of theirs, an outcome, or `open`."""

    problem: str | None = None
    participant: str | None = None
    state: str | None = None
    mode: str | None = None
    before: Annotated[int, Field(ge=1, le=NUMBER_MAX)] | None = None
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 50


class OwnQuery(Paged):
    """Which of one's own submissions."""

    problem: str | None = None
    state: str | None = None
    tag: str | None = None


class OneQuery(Asking):
    """How long to wait for news after which version, and whether the source is wanted."""

    after: Annotated[int, Field(ge=-1, le=NUMBER_MAX)] | None = None
    wait_s: Annotated[float, Field(ge=0, le=WAIT_S_MAX)] = 0
    source: bool = False


class OwnCursor(cursors.Cursor, frozen=True, kw_only=True, tag="own"):
    """The last submission that was listed."""

    number: int


@dataclass(frozen=True)
class Submissions:
    """The reads of submissions."""

    reader: Reads
    moments: Moments
    news: News
    live: Alive
    blobs: Blobs

    def install(self, app: FastAPI) -> None:
        """Answer on an application."""
        app.get("/v1/submissions")(self.newest)
        app.get("/v1/me/submissions")(self.own)
        app.get("/v1/submissions/{number}")(self.one)

    async def newest(self, who: Asker, query: Annotated[NewestQuery, Query()]) -> shapes.Newest:
        """The newest submissions first; `before` continues a list."""
        seen = Seen(self.reader, who)
        items = await self._listed(seen, **query.model_dump())
        return {"items": items, "as_of": self.news.seq, "parked": standing(self.news)}

    async def own(
        self, request: Request, who: Asker, query: Annotated[OwnQuery, Query()]
    ) -> Answer[shapes.Own]:
        """One's own submissions, newest first."""
        if who.account is None:
            raise Refused("missing_credential", "say who you are: this list is your own")
        read = None if query.cursor is None else cursors.read(query.cursor, OwnCursor)
        seq = self.news.seq if read is None else read.as_of
        items = await self._listed(
            Seen(self.reader, who),
            problem=query.problem,
            account=who.account,
            state=query.state,
            tag=query.tag,
            before=(seq + 1) if read is None else read.number,
            limit=query.limit + 1,
        )
        found, more = items[: query.limit], items[query.limit :]
        last = found[-1]["number"] if more else 0
        following = OwnCursor(made_at=time.time(), as_of=seq, number=last) if more else None
        cursor = None if following is None else cursors.text(following)
        body: shapes.Own = {"items": found, "next_cursor": cursor, "as_of": seq}
        return answered(request, body, seq)

    async def one(
        self,
        request: Request,
        who: Asker,
        number: NumberInPath,
        query: Annotated[OneQuery, Query()],
    ) -> Answer[shapes.Page]:
        """One submission; with `after`, or an ETag seen before, held until there is news."""
        seen = Seen(self.reader, who)
        after = query.after
        if after is None:
            known = version_known(request) if query.wait_s else None
            after = -1 if known is None else known
        found = await self._after(seen, number, after, query.wait_s)
        if found is None:
            raise unknown(number)
        if query.source:
            if why := seen.source_hidden(found, now()):
                raise Refused("no_access", f"its source is not yours to see: {why}", "source")
            text = await source_text(self.blobs, found["source_digest"])
            found = found | {"source": text}
        return answered(request, cast("shapes.Page", seen.page(found)), found["version"])

    async def _listed(self, seen: Seen, **wanted: object) -> list[shapes.Line]:
        every = ("problem", "participant", "account", "state", "mode", "tag", "before", "limit")
        asked = {name: wanted.get(name) for name in every}
        if isinstance(asked["problem"], str):
            asked["problem"] = asked["problem"].lower()
        rows = await seen.rows("submissions", **asked)
        found = [seen.line(row) | _state(row) | {"score": seconds(row["score_us"])} for row in rows]
        return cast("list[shapes.Line]", found)

    async def _after(self, seen: Seen, number: int, after: int, wait_s: float) -> Row | None:
        """A submission once it has news after a version, or a while is over."""
        until = time.monotonic() + wait_s
        seq, found = self.news.seq, await self._submission(seen, number)
        while not (_is_news(found, after) or self.news.is_over):
            if (left := until - time.monotonic()) <= 0:
                break
            if found is None and seq >= number:
                break  # It does not exist for them, and will not.
            await self._news(found, seq, min(left, LOOK_S))
            seq, found = self.news.seq, await self._submission(seen, number)
        return found

    async def _news(self, found: Row | None, seq: int, within_s: float) -> None:
        """Wait until a submission may have moved, or the read models if it is not in them yet.

        What was folded since it was read, from `seq` on, may be about it.
        """
        if found is None:
            await self.news.wait(within_s)
            return
        with self.news.following(found["id"]) as moved, suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                if self.news.seq == seq:
                    await moved.wait()

    async def _submission(self, seen: Seen, number: int) -> Row | None:
        """A submission, if it exists for who asks; what is read of it is everybody's."""
        moment = await self.moments.now()
        found = await moment.once(number, lambda: _whole(moment, number))
        if found is None or not seen.sees(found):
            return None
        if found["is_over"]:
            return found
        said = {"progress": safe_progress(self.live.progress.get(found["id"]))}
        return found | said | {"queue": expected(self.live, found)}


async def _whole(moment: Moment, number: int) -> Row | None:
    """All that is kept of a submission, whoever may see it."""
    rows = await moment.reads.rows("submission", number=number, at=moment.at)
    if not rows:
        return None
    row = with_interval(rows[0])
    decided = row.pop("decided")
    end = End(row["mode"], row["outcome"], row["is_held"], row["is_eligible"])
    timeline = [_line(line, end) for line in row.pop("timeline")]
    is_over = row["state"] == "finished"
    row["cases"] = await _cases(moment, row)
    del row["roofs"]
    shown = {
        "version": timeline[-1]["seq"] if timeline else number,
        "is_over": is_over,
        "problem_version": row["problem_number"],
        "created_at": row["received_at"],
        "score": seconds(row["score_us"]),
        "source": None,
        "timeline": timeline,
        "progress": None,
        "queue": None,
        "moderation": _moderation(decided),
        "ranking": await ranking(moment, row, decided),
        "results": await _results(moment, row["id"]) if is_over else [],
        "blobs": [_blob(number, file) for file in row["files"]],
    }
    return row | _state(row) | shown


async def _results(moment: Moment, submission: str) -> list[Row]:
    """What a submission scored under each problem version."""
    return [with_interval(row) for row in await moment.reads.rows("results", id=submission)]


async def _cases(moment: Moment, row: Row) -> list[Row]:
    """The cases of a submission, held against what its problem says and the platform ran."""
    board = Board(row["problem"], row["gpu"], row["problem_number"])
    cases = told(row)
    return await compared(moment.reads, board, cases) if row.pop("has_baselines") else cases


def _line(line: list[Any], end: End) -> Row:
    """An event under the name that the submission's history has for it, too."""
    said = dict(zip(LINE, line, strict=False))
    kind = said["type"]
    return said | {"type": public_name(kind, end), "state": MOVES.get(kind)}


def _state(row: Row) -> Row:
    """By when a submission must leave its state, and who must see to it."""
    state, until_at = STATES.get(row["state"]), None
    if state is not None:
        lease_until_at: datetime | None = row["lease_until_at"]
        until_at = state_deadline(
            row["state"], row["deadline_at"], row["state_since"], lease_until_at
        )
    return {"state_deadline_at": until_at, "state_owner": state.owner if state else None}


def _blob(number: int, file: Row) -> Row:
    url = f"/v1/submissions/{number}/files/{quote(file['name'], safe='')}"
    return file | {"kind": KINDS.get(file["name"], "artefact"), "url": url}


def _moderation(decided: Row) -> Row | None:
    """What people decided about a submission; None if nobody did."""
    instants = ("decided_at", "appealed_at", "banned_at", "withdrawn_at")
    return decided if any(decided[one] is not None for one in instants) else None


def _is_news(found: Row | None, after: int) -> bool:
    return found is not None and (found["version"] > after or found["is_over"])
