"""What is sent when a phase begins shows no more than what is read then.

Streams and long polls that are open, and webhooks.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import pytest

from shared import subjects
from shared.events import SubmissionReceived
from tests.access.embargoed_contest import (
    HOUR,
    SECOND,
    SPRINT,
    STAGES,
    EmbargoedContest,
    Entry,
    Stage,
    list_secrets,
    open_embargoed_contest,
)
from tests.access.hooks import ENDED, Hooks, open_hooks
from tests.access.judging import Judge
from tests.ingest.ways import Ways
from tests.support.lives import say
from tests.support.serving import serve_app
from tests.support.waits import eventually

pytestmark = [pytest.mark.server, pytest.mark.long]

END_S = 30.0
# At the first borders there are no ranks yet.
FIRST_HOUR = 2
MOVED_HOUR, MOVED_UNTIL_HOUR = 9.5, 10
# When the problem takes submissions; those that run meanwhile were received before.
OPEN_HOURS = (2, 3, MOVED_HOUR)
# Whose submission is judged right after each border. Each is faster than the last, and its rank is
# among the secret ones.
RUNNER, BASE_US, STEP_US = "solo", 2903.5, 37.0
HISTORY, LONG_POLL, POPCORN, CHANGES = "history", "long poll", "popcorn", "changes"
TELLING = {HISTORY, LONG_POLL, POPCORN, f"webhook {ENDED}", "webhook submission.ranked"}
# They see ranked submissions of others while ranks are shown.
OUTSIDERS = ("nobody", "rival", "participant", "author", "oscar", "olga elsewhere")


@dataclass(eq=False)
class Listener:
    """A request whose response arrives while a phase begins."""

    name: str
    url: str
    surface: str
    status: int = 0
    text: str = ""
    # How much of the text was sent before the phase began.
    sent_before: int = 0

    async def listen(self, http: httpx.AsyncClient, method: str, **sent: Any) -> None:
        """Listen until the server ends the response, or the test does."""
        async with http.stream(method, self.url, **sent) as answer:
            self.status = answer.status_code
            async for piece in answer.aiter_text():
                self.text += piece


@dataclass
class Crossing:
    """Everybody listens to a submission while a phase begins; it is judged right after."""

    contest: EmbargoedContest
    clients: dict[str, httpx.AsyncClient]
    hooks: Hooks
    judge: Judge
    waiting: dict[Listener, asyncio.Task[None]] = field(default_factory=dict)
    # How many histories of outsiders ended when a phase began to hide ranks.
    cut_off: int = 0

    def listen(self, name: str, url: str, surface: str, method: str = "GET", **sent: Any) -> None:
        """Let somebody listen to a response."""
        listener = Listener(name, url, surface)
        coroutine = listener.listen(self.clients[name], method, **sent)
        self.waiting[listener] = asyncio.create_task(coroutine)

    async def cross(
        self, entry: Entry, stage: Stage, following: Stage, begin: Callable[[], Awaitable[None]]
    ) -> None:
        """Listen in a phase, let the next one begin, and search what is sent in both."""
        contest, self.waiting = self.contest, {}
        id_ = await self.submit(entry) if following.hour in OPEN_HOURS else f"id-{entry.id}"
        received, *before, (run, verdict) = (await contest.make_life(entry, id_)).facts()
        if following.hour not in OPEN_HOURS:
            before.insert(0, received)
        for aggregate, fact in before:
            await say(contest.log, aggregate, fact, id_, contest.clock.at)
        await contest.settle()
        await self.open_all(contest.find_number(id_))
        await begin()
        for listener in self.waiting:
            listener.sent_before = len(listener.text)
        await say(contest.log, run, verdict, id_, contest.clock.at)
        await contest.settle()
        await self.end_all()
        await self.judge_webhooks(entry.name, contest.find_number(id_), following)
        for listener in self.waiting:
            if listener.surface == HISTORY and listener.name in OUTSIDERS and stage.shown == "live":
                self.cut_off += "SubmissionRanked" not in listener.text
            parts = listener.text[: listener.sent_before], listener.text[listener.sent_before :]
            for text, phase in zip(parts, (stage, following), strict=True):
                self.judge.judge(self.judge.find(text), listener.surface, listener.name, phase)
        self.judge.check()

    async def judge_webhooks(self, name: str, number: int, following: Stage) -> None:
        """Search what webhooks are sent, up to the end of a submission."""
        contest = self.contest
        for delivery in await self.hooks.take_until_ended(name, number):
            hour = (delivery.at - contest.base) / HOUR
            phase = following if delivery.at >= contest.clock.at else contest.stage_at(hour)
            found, surface = self.judge.find(delivery.data), f"webhook {delivery.kind}"
            self.judge.judge(found, surface, delivery.name, phase)

    async def submit(self, entry: Entry) -> str:
        """Submit and follow as the public client does; return the id."""
        log = self.contest.log
        last = await log.last()
        form = {"file": ("kernel.py", entry.source)}
        self.listen(entry.name, f"/{SPRINT}/CPU/leaderboard", POPCORN, "POST", files=form)

        def find() -> str:
            for event in log.since(last):
                if isinstance(event.fact, SubmissionReceived):
                    return subjects.last_token(event.envelope.aggregate)
            (listener,) = self.waiting
            assert listener.status in (0, httpx.codes.OK), listener.text
            return ""

        return await eventually(find)

    async def open_all(self, number: int) -> None:
        """Open a history, a long poll and the changes of the leaderboard as each caller."""
        url = f"/v1/submissions/{number}"
        answer = await self.clients["admin"].get(url)
        version = answer.json()["version"]
        for name in self.clients:
            self.listen(name, f"{url}/events", HISTORY)
            self.listen(name, f"{url}?after={version}&wait_s=20", LONG_POLL)
            self.listen(name, f"/v1/leaderboards/{SPRINT}/CPU/events", CHANGES)

        def is_open() -> bool:
            refused = [it for it in self.waiting if it.status not in (0, httpx.codes.OK)]
            histories = [it for it in self.waiting if it.surface == HISTORY and it not in refused]
            changes = [it for it in self.waiting if it.surface == CHANGES and it not in refused]
            return all("JobAssigned" in it.text for it in histories) and all(
                it.text for it in changes
            )

        await eventually(is_open)

    async def end_all(self) -> None:
        """Wait until every history and long poll ended, and the others sent what is new."""
        changes = {it: task for it, task in self.waiting.items() if it.surface == CHANGES}
        endless = set(changes.values())
        async with asyncio.timeout(END_S):
            await asyncio.gather(*(it for it in self.waiting.values() if it not in endless))
        await eventually(
            lambda: all(
                task.done() or len(listener.text) > listener.sent_before
                for listener, task in changes.items()
            )
        )
        for task in endless:
            task.cancel()
        results = await asyncio.gather(*endless, return_exceptions=True)
        assert all(it is None or isinstance(it, asyncio.CancelledError) for it in results), results


@asynccontextmanager
async def open_clients(ways: Ways) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """Serve the application, and open a client of each caller that may have many streams."""
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(serve_app(ways.door.app))
        clients = {}
        for name, person in ways.people.items():
            client = httpx.AsyncClient(base_url=url, headers=dict(person.headers), timeout=END_S)
            clients[name] = await stack.enter_async_context(client)
        yield clients


@pytest.mark.feature("N14")
@pytest.mark.timeout(300)
async def test_no_open_stream_shows_a_secret_before_its_phase(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    borders = [(a, b) for a, b in pairwise(STAGES) if b.hour >= FIRST_HOUR]
    # The archive is moved after it began, so that a phase that showed all ends without a warning.
    before, archive = STAGES[-2:]
    borders.append((archive, before._replace(hour=MOVED_HOUR)))
    crossing = [
        Entry(f"crossing-{index}", RUNNER, SPRINT, following.hour, BASE_US - index * STEP_US)
        for index, (_, following) in enumerate(borders)
    ]
    async with (
        open_embargoed_contest(postgres_dsn, monkeypatch, is_connected=True) as contest,
        open_clients(contest.ways) as clients,
        open_hooks(contest) as hooks,
    ):
        judge = Judge(list_secrets(*crossing))
        streams, received_until = Crossing(contest, clients, hooks, judge), 0.0

        async def move() -> None:
            contest.set_hour(MOVED_HOUR)
            await contest.publish(contest.definition(archive_hour=MOVED_UNTIL_HOUR))
            await contest.settle()

        for entry, (stage, following) in zip(crossing, borders, strict=True):
            await contest.receive(received_until, following.hour)
            received_until = following.hour
            contest.set_hour(following.hour, -SECOND)

            async def begin(hour: float = following.hour) -> None:
                contest.set_hour(hour)

            is_moved = stage is archive
            await streams.cross(entry, stage, following, move if is_moved else begin)
        # The test can fail: each kind of stream tells the score to those who may read it, and who
        # may not had opened it.
        assert {name for name, pairs in judge.told.items() if ("solo", "score") in pairs} == TELLING
        assert "webhook entry.overtaken" in judge.told
        assert streams.cut_off >= 2 * len(OUTSIDERS)
