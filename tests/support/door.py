"""ingest as an HTTP client sees it, with the log behind it and a read side that reads that log."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import httpx
import msgspec
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from psycopg_pool import AsyncConnectionPool

from ingest.app import create_app
from ingest.bootstrap import Ingest, build_sign_in, ingest
from ingest.decisions import Decisions
from ingest.identity.access.feed import AccessFeed
from ingest.identity.access.usage import TokenUsage
from ingest.identity.accounts.service import Accounts, Tokens
from ingest.identity.http.authenticator import AuthConfig, Authenticator, Edge
from ingest.identity.login.cli_ids import CliIdLinking
from ingest.identity.login.sign_in import Argon2Hasher
from ingest.ports import AccountStore, IdempotencyStore, Ports, WebhookStore
from ingest.postgres import PostgresAccountStore, PostgresIdempotencyStore, PostgresWebhookStore
from ingest.problems.commands import Check, Publication
from ingest.ranker_http import RankerClient
from ingest.reads.routes import reads_router, search_router
from ingest.settings import Settings
from ingest.submissions.admission import DEFAULT_LIMITS, AdmissionLimits
from ingest.webhooks.routes import webhooks_router
from ingest.webhooks.service import Webhooks
from shared import subjects
from shared.api.queues import Launcher, QueueOfGpu
from shared.clock import new_id, now
from shared.errors import Refused
from shared.event_log import BranchSource, EventLog, NewEvent
from shared.events import Fact, RejudgeItem, SubmissionFinished, SubmissionReceived
from shared.postgres import create_pool
from shared.settings import Listen
from shared.wire import EventMetadata, make_envelope
from tests.support.api_examples import make_example
from tests.support.examples import clean_report
from tests.support.memory import MemoryBlobStore, MemoryBus, MemoryDeadLetters, MemoryLog
from tests.support.memory_stores import (
    MemoryAccountStore,
    MemoryIdempotencyStore,
    MemoryWebhookStore,
)
from tests.support.waits import eventually

TASK = """
lang: py
description: Copy the input.
config: {main: eval.py}
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
tests:
  - {size: 8, seed: 1}
benchmarks:
  - {size: 64, seed: 2}
test_timeout: 10
gpus: [CPU, H100]
"""
REFERENCE = b"""\
def generate_input(**case): ...
def ref_kernel(data): return data
def check_implementation(data, output): return data == output
"""
FILES = {"task.yml": TASK.encode(), "reference.py": REFERENCE}
KERNEL = b"def custom_kernel(data):\n    return data\n"
KERNEL_FILE = {"file": ("kernel.py", KERNEL)}
ADA = {"Warpboard-Participant": "ada"}
TOKEN = "a-token-of-operators"
NOWHERE = Listen("127.0.0.1", 1)
SETTINGS = Settings(
    nats_url="", postgres_dsn="", listen=NOWHERE, ops_listen=NOWHERE, ranker_url="", reader_key=""
)
OPERATOR = {"Authorization": f"Bearer {TOKEN}", "Warpboard-Operator": "olga"}
FINISHED = SubmissionFinished(outcome="passed", is_eligible=True, code="ok", reason="")


class Door:
    """ingest as an HTTP client sees it, and what is behind it."""

    commands: Ingest
    app: FastAPI
    stores: "Stores"

    def __init__(
        self, http: httpx.AsyncClient, log: MemoryLog, bus: MemoryBus, queue: "Queue"
    ) -> None:
        self.http = http
        self.log = log
        self.bus = bus
        self.queue = queue

    async def publish(
        self,
        files: Mapping[str, bytes] = FILES,
        headers: Mapping[str, str] = ADA,
        **fields: str | list[str],
    ) -> httpx.Response:
        """Publish the problem copy, or another, with a clean report; an empty field is left out."""
        data = {
            "slug": "copy",
            "report": report_of(files, str(fields.get("slug", "copy"))),
        } | fields
        parts = [("files", (name, text)) for name, text in files.items()]
        kept = {key: value for key, value in data.items() if value}
        return await self.http.post("/v1/problems", data=kept, files=parts, headers=headers)

    async def submit(
        self,
        source: bytes = KERNEL,
        name: str = "kernel.py",
        headers: Mapping[str, str] = ADA,
        **fields: str | list[str],
    ) -> httpx.Response:
        """Submit to the problem copy."""
        return await self.ask(fields, {"file": (name, source)}, headers)

    async def ask(
        self,
        fields: Mapping[str, str | list[str]],
        files: Mapping[str, tuple[str, bytes]] = KERNEL_FILE,
        headers: Mapping[str, str] = ADA,
    ) -> httpx.Response:
        """Submit with these fields; an empty one is left out."""
        data = {"problem": "copy", "mode": "test", "gpu": "CPU"} | dict(fields)
        kept = {key: value for key, value in data.items() if value}
        return await self.http.post("/v1/submissions", data=kept, files=files, headers=headers)

    async def number(self, **fields: str) -> int:
        """The number of a fresh submission."""
        answer = await self.submit(**fields)  # type: ignore[arg-type]
        assert answer.status_code == 202, answer.text
        return int(answer.json()["submissions"][0]["number"])

    async def finish(self, number: int, fact: Fact = FINISHED) -> None:
        """Let a submission end as ranker would."""
        await self.say(self.log.since(number - 1)[0].envelope.aggregate, fact)

    async def say(self, aggregate: str, fact: Fact) -> None:
        """Put an event of another service into the log."""
        stamp = EventMetadata(new_id(), now(), "service:test", "test", "test")
        await self.log.append(NewEvent(make_envelope(fact, aggregate, stamp), None))

    async def admin(self, method: str, path: str, **body: Any) -> httpx.Response:
        """An operator's request."""
        sent = body or None
        return await self.http.request(method, f"/v1/admin/{path}", json=sent, headers=OPERATOR)

    async def said(self, answer: httpx.Response) -> Fact:
        """The event that an answer tells of, which an operator said."""
        assert answer.status_code in (200, 201, 202), answer.text
        recorded = self.log.since(answer.json()["seq"] - 1)[0]
        assert recorded.envelope.actor == "operator:olga"
        return recorded.fact


def publication(slug: str, files: Mapping[str, bytes]) -> Publication:
    """A problem with a clean report, as authors publish it."""
    return Publication(slug, files, Check(clean_report(slug, files).encode()))


def report_of(files: Mapping[str, bytes], slug: str = "copy") -> str:
    """A clean report of a problem, "" of what is none."""
    try:
        return clean_report(slug, files)
    except Refused:
        return ""


class Queue:
    """How many wait for each GPU type and what its agents offer; `asked` counts who asked."""

    def __init__(
        self,
        waiting: int = 0,
        toolchains: Sequence[Sequence[str]] = (),
        launchers: Sequence[Launcher] = (),
        state: str = "queued",
        reason: str | None = None,
    ) -> None:
        self.waiting = waiting
        self.state = state
        self.reason = reason
        self.toolchains = toolchains
        self.launchers = launchers
        self.asked = 0


def taken_in(log: MemoryLog) -> Sequence[tuple[int, str, SubmissionReceived]]:
    """The number, the id and the event of every submission."""
    return [
        (one.seq, subjects.last_token(one.envelope.aggregate), one.fact)
        for one in log.since(0)
        if isinstance(one.fact, SubmissionReceived)
    ]


def reading(log: MemoryLog, queue: Queue | None = None) -> FastAPI:
    """As much of the read side as ingest asks, read from the log at once."""
    app = FastAPI()
    waiting, received = queue or Queue(), partial(taken_in, log)

    @app.get("/internal/submissions/{number}")
    async def submission(number: int) -> JSONResponse:
        found = [name for seq, name, _ in received() if seq == number]
        return JSONResponse({"id": found[0]} if found else {}, 200 if found else 404)

    @app.get("/v1/queue/{gpu}")
    async def queue_of(gpu: str) -> JSONResponse:
        waiting.asked += 1
        queue_now = make_example(
            QueueOfGpu,
            gpu=gpu,
            state=waiting.state,
            reason=waiting.reason,
            waiting=waiting.waiting,
            toolchains=waiting.toolchains,
            launchers=waiting.launchers,
        )
        return JSONResponse(msgspec.to_builtins(queue_now))

    @app.get("/v1/submissions")
    async def some(problem: str) -> JSONResponse:
        return JSONResponse(
            {"items": [seq for seq, _, one in received() if one.problem == problem]}
        )

    @app.get("/v1/leaderboards")
    async def boards(problem: str) -> JSONResponse:
        gpus = {
            one.gpu for _, _, one in received() if (one.problem, one.mode) == (problem, "ranked")
        }
        return JSONResponse({"items": [{"gpu": gpu} for gpu in sorted(gpus)]})

    @app.post("/internal/archive/search")
    async def search_by_source() -> dict[str, Any]:
        return {"items": [], "next_cursor": None, "is_complete": True, "as_of": 0}

    @app.get("/internal/rejudge-items")
    async def items(
        problem: str, from_version: int, select: str, gpu: str | None = None
    ) -> JSONResponse:
        found = [
            RejudgeItem(
                submission=name,
                account=fact.account,
                gpu=fact.gpu,
                source=fact.source,
                name=fact.name,
            )
            for _, name, fact in received()
            if (fact.problem, fact.problem_number) == (problem, from_version)
            and gpu in (None, fact.gpu)
        ]
        chosen = found if select == "all" else found[:1]
        return JSONResponse({"items": msgspec.to_builtins(chosen)})

    return app


def nobodys_gate() -> Authenticator:
    """A gate that knows nobody, over nothing."""
    log = MemoryLog()
    feed, decisions, register = AccessFeed(log), Decisions(log, now), MemoryAccountStore()
    people = Accounts(decisions, feed, register)
    tokens = Tokens(decisions, feed, register, TokenUsage(register))
    return Authenticator(
        feed, register, tokens.usage, CliIdLinking(people, tokens).claim, AuthConfig()
    )


@dataclass
class Stores:
    """What ingest keeps beside the log: in memory, or in the Postgres that `pool` leads to."""

    people: AccountStore = field(default_factory=MemoryAccountStore)
    repeats: IdempotencyStore = field(default_factory=MemoryIdempotencyStore)
    webhooks: WebhookStore = field(default_factory=MemoryWebhookStore)
    pool: AsyncConnectionPool = field(default_factory=lambda: create_pool("", 1, 1))


@asynccontextmanager
async def postgres_stores(dsn: str) -> AsyncIterator[Stores]:
    """The stores of a migrated database."""
    async with create_pool(dsn, 1, 4) as connections:
        yield Stores(
            PostgresAccountStore(connections),
            PostgresIdempotencyStore(connections),
            PostgresWebhookStore(connections),
            connections,
        )


# Applications that no door uses now, each with the objects that its routes call.
_APPLICATIONS: list[tuple[FastAPI, tuple[object, ...]]] = []


def _reuse_application(parts: tuple[object, ...]) -> tuple[FastAPI, tuple[object, ...]] | None:
    """Return an application whose routes now call these parts, and the objects they hold.

    To make its hundred routes takes 70 ms, which is most of what a door takes. Nothing of a former
    door is left in the objects: each gets the whole state of the new one, not a copy.
    """
    for index, (app, known) in enumerate(_APPLICATIONS):
        if [type(one) for one in known] == [type(one) for one in parts]:
            del _APPLICATIONS[index]
            for old, new in zip(known, parts, strict=True):
                object.__setattr__(old, "__dict__", new.__dict__)
            return app, known
    return None


@asynccontextmanager
async def opened(
    log: EventLog,
    token: str = TOKEN,
    first: bool = True,
    *,
    stores: Stores | None = None,
    are_names_believed: bool = True,
    are_webhooks_local: bool = False,
    autolink: str = "",
    edge: tuple[str, frozenset[str]] = ("", frozenset()),
    blobs: MemoryBlobStore | None = None,
    clock: Callable[[], datetime] = now,
    limits: AdmissionLimits = DEFAULT_LIMITS,
    read_side: FastAPI | None = None,
) -> AsyncIterator[Door]:
    """A door, the first one with the problem copy; the log and the stores may be real ones.

    So may the read side that its commands ask.
    """
    stores = stores or Stores()
    memory = log if isinstance(log, MemoryLog) else MemoryLog()
    bus = MemoryBus(memory)
    queue = Queue()
    inner = httpx.ASGITransport(read_side or reading(memory, queue))
    async with httpx.AsyncClient(transport=inner, base_url="http://ranker") as behind:
        letters, ranker = MemoryDeadLetters(memory, bus), RankerClient(behind)
        ports = Ports(log, blobs or MemoryBlobStore(), stores.people, ranker, letters, clock)
        assert isinstance(log, BranchSource)
        feed = AccessFeed(log)

        commands = ingest(ports, feed, limits)

        async def is_well() -> str:
            return commands.feed.why_unhealthy()

        linking = CliIdLinking(commands.people, commands.tokens, autolink)
        sign_in = build_sign_in(SETTINGS, stores.pool, commands.people, Argon2Hasher())
        vouched = Edge(edge[0], feed, sign_in.resolve_account, edge[1])
        keys = AuthConfig(token, are_names_believed, vouched)
        gate = Authenticator(
            feed, commands.people.store, commands.tokens.usage, linking.claim, keys
        )
        hooks = Webhooks(commands.boards.decisions, feed, stores.webhooks, are_webhooks_local)
        parts = (commands, *vars(commands).values(), gate, stores.repeats, hooks, ranker)
        reused = _reuse_application(parts)
        if reused is None:
            app, known = create_app(commands, gate, is_well, stores.repeats), parts
            app.include_router(webhooks_router(hooks, gate))
            app.include_router(reads_router(ranker, gate))
            app.include_router(search_router(ranker, gate))
        else:
            app, known = reused
        following = asyncio.create_task(feed.run())
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
            door = Door(http, memory, bus, queue)
            door.commands, door.app, door.stores = commands, app, stores
            await eventually(lambda: not feed.why_unhealthy())
            if are_names_believed:
                answer = await door.publish()
                assert answer.status_code == (201 if first else 200), answer.text
            yield door
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        _APPLICATIONS.append((app, known))
