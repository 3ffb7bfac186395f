"""The read API: read models as JSON, each answer with the sequence it was read at."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI

from ranker.http.boards import boards
from ranker.http.files import files
from ranker.http.submissions import submissions
from ranker.service import Alive, News, Reads
from shared.blobs import Blobs
from shared.http import install


def application(
    reader: Reads, news: News, live: Alive, last: Callable[[], Awaitable[int]], blobs: Blobs
) -> FastAPI:
    """The read side of the public API; `last` is the sequence of the log's newest event."""
    app = FastAPI(title="Warpboard reads", docs_url=None, redoc_url=None)
    install(app)
    submissions(app, reader, news, live, last)
    files(app, reader, blobs)
    boards(app, reader)

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
