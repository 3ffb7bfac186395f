"""The read API: read models as JSON, each answer with the sequence it was read at."""

from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ranker.http.boards import Boards
from ranker.http.cases import cases
from ranker.http.comparing import comparing
from ranker.http.events import Histories
from ranker.http.files import files
from ranker.http.goals import own_milestones
from ranker.http.harnesses import harnesses
from ranker.http.moments import Moments
from ranker.http.people import internal, people, rejudges
from ranker.http.problems import problems
from ranker.http.stats import stats
from ranker.http.submissions import Submissions
from ranker.http.waiting import waiting
from ranker.service import Alive, News, Reads
from shared.answers import Documented
from shared.blobs import Blobs
from shared.clock import now
from shared.http import install


class Lag:
    """Says with each answer how old what it shows is."""

    def __init__(self, app: ASGIApp, news: News) -> None:
        self.app = app
        self.news = news

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the header Warpboard-Projection-Lag, in seconds; Source: the ASGI specification."""

        async def said(message: Message) -> None:
            if message["type"] == "http.response.start":
                lag = f"{self.news.lag_s(now()):.3f}".encode()
                message["headers"] = [*message["headers"], (b"warpboard-projection-lag", lag)]
            await send(message)

        await self.app(scope, receive, said)


def application(
    reader: Reads, news: News, live: Alive, last: Callable[[], Awaitable[int]], blobs: Blobs
) -> FastAPI:
    """The read side of the public API; `last` is the sequence of the log's newest event."""
    app = FastAPI(title="Warpboard reads", docs_url=None, redoc_url=None)
    app.router.route_class = Documented
    app.add_middleware(Lag, news=news)
    install(app)
    app.state.reached = partial(news.reach, log_end=last)
    app.state.histories = Histories(reader, news, live)
    app.get("/v1/submissions/{number}/events")(app.state.histories.events)
    Submissions(reader, Moments(reader), news, live, blobs).install(app)
    cases(app, reader, blobs)
    files(app, reader, blobs)
    comparing(app, reader, blobs)
    problems(app, reader, blobs)
    Boards(reader, news, app).install()
    own_milestones(app, reader)
    people(app, reader, news)
    rejudges(app, reader, blobs, news)
    internal(app, reader, news)
    waiting(app, reader, news, live)
    harnesses(app, reader, blobs, news, live)
    stats(app, reader)
    return app
