"""What participants did, and what people decided: histories, moderation, rejudges."""

from typing import Annotated, Any, cast

import msgspec
from fastapi import FastAPI, Query

from ranker.http.access import Asker, Seen, unknown
from ranker.http.acts import check_staff
from ranker.http.answers import Limit, NumberInPath, Version
from ranker.http.boards import named, personal
from ranker.http.shapes import boards, deciding
from ranker.service import News, Reads
from shared.blobs import Blobs, Missing
from shared.errors import Failed, Refused
from shared.events import Blob, RejudgeItem

REJUDGE_ITEMS_MAX = 400
SELECTS = {"best": "best_items", "all": "all_items"}

Row = dict[str, Any]
Selected = Annotated[str, Query(pattern="^(best|all)$")]


def people(app: FastAPI, reader: Reads, news: News) -> None:
    """The reads of participants' histories and of moderation."""

    @app.get("/v1/participants/{name}/history")
    async def history(
        who: Asker, name: str, problem: str, gpu: str, version: Version = None
    ) -> boards.PersonalHistory:
        """Every ranked submission of a participant on a leaderboard, newest first."""
        seen = Seen(reader, who)
        _, board = await named(seen, problem, gpu, version)
        known, items = await personal(seen, name, board)
        return {
            "participant": known,
            "problem": board.problem,
            "gpu": board.gpu,
            "problem_version": board.problem_number,
            "items": items,
            "as_of": news.seq,
        }

    @app.get("/v1/moderation")
    async def moderation(
        who: Asker,
        open: bool = False,  # noqa: A002  (the parameter's public name)
        limit: Limit = 100,
    ) -> deciding.Moderation:
        """What was decided about one's own submissions, or to staff about all of them.

        With `open` it is what waits for somebody.
        """
        items = await Seen(reader, who).rows("moderation", open=open, limit=limit)
        return {"items": cast("list[deciding.Decision]", items), "as_of": news.seq}


def rejudges(app: FastAPI, reader: Reads, blobs: Blobs, news: News) -> None:
    """The reads of rejudges, which are staff's."""

    @app.get("/v1/rejudges")
    async def every(who: Asker, limit: Limit = 50) -> deciding.Rejudges:
        """Rejudges, newest first; nobody but staff is shown any."""
        rows = await reader.rows("rejudges", id=None, limit=limit) if who.is_staff else []
        return {"items": cast("list[deciding.Rejudge]", rows), "as_of": news.seq}

    @app.get("/v1/rejudges/{id}")
    async def one(who: Asker, id: str) -> deciding.RejudgeWhole:  # noqa: A002  (the path's public name)
        """One rejudge, with what it would change or changed once that is known."""
        rows = await reader.rows("rejudges", id=id, limit=1) if who.is_staff else []
        if not rows:
            raise Refused("unknown_rejudge", f"there is no rejudge {id!r}", "id")
        preview = await _preview(blobs, rows[0]["diff"])
        said = rows[0] | {"preview": preview, "as_of": news.seq}
        return cast("deciding.RejudgeWhole", said)

    @app.get("/v1/admin/rejudges")
    async def all_of_them(who: Asker, limit: Limit = 50) -> deciding.Rejudges:
        """The same for operators, and a refusal for others."""
        check_staff(who)
        return await every(who, limit)

    @app.get("/v1/admin/rejudges/{id}")
    async def any_one(who: Asker, id: str) -> deciding.RejudgeWhole:  # noqa: A002  (the path's public name)
        """The same for operators, and a refusal for others."""
        check_staff(who)
        return await one(who, id)


def internal(app: FastAPI, reader: Reads, news: News) -> None:
    """What ingest asks for itself, which no client reaches."""

    @app.get("/internal/submissions/{number}")
    async def submission(number: NumberInPath) -> Row:
        """Which submission a number means, for ingest, which decides who may know."""
        if rows := await reader.rows("submission_id", number=number):
            return rows[0]
        raise unknown(number)

    @app.get("/internal/rejudge-items")
    async def items(
        problem: str, from_version: int, gpu: str | None = None, select: Selected = "best"
    ) -> dict[str, Any]:
        """What a rejudge would run again: one more than allowed says that there are too many."""
        rows = await reader.rows(
            SELECTS[select],
            problem=problem,
            number=from_version,
            gpu=gpu,
            limit=REJUDGE_ITEMS_MAX + 1,
        )
        found = [msgspec.to_builtins(_item(row)) for row in rows]
        return {"items": found, "as_of": news.seq}


async def _preview(blobs: Blobs, digest: str | None) -> Any:
    if digest is None:
        return None
    try:
        return msgspec.json.decode(await blobs.get(digest))
    except Missing as missing:
        raise Failed(f"the preview is not there: {missing}") from missing


def _item(row: Row) -> RejudgeItem:
    source = Blob(digest=row["source"], bytes=row["source_bytes"], media=row["source_media"])
    return RejudgeItem(
        submission=row["submission"],
        account=row["account"],
        gpu=row["gpu"],
        source=source,
        name=row["name"],
    )
