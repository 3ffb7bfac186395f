"""The read API: read models as JSON, each answer with the sequence it was read at."""

from collections.abc import Awaitable, Callable

from fastapi import FastAPI

from ranker.http.boards import boards
from ranker.http.files import files
from ranker.http.people import people, rejudges
from ranker.http.submissions import Submissions
from ranker.http.waiting import waiting
from ranker.service import Alive, News, Reads
from shared.blobs import Blobs
from shared.http import install


def application(
    reader: Reads, news: News, live: Alive, last: Callable[[], Awaitable[int]], blobs: Blobs
) -> FastAPI:
    """The read side of the public API; `last` is the sequence of the log's newest event."""
    app = FastAPI(title="Warpboard reads", docs_url=None, redoc_url=None)
    install(app)
    Submissions(reader, news, live, last).install(app)
    files(app, reader, blobs)
    boards(app, reader, news)
    people(app, reader, news)
    rejudges(app, reader, blobs, news)
    waiting(app, reader, news, live)
    return app
