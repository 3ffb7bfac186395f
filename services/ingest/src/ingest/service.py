"""Taking in: load, decide, keep the blob, append, answer."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, Protocol

from ingest import domain
from shared import subjects
from shared.blobs import Blobs
from shared.clock import new_id, now
from shared.errors import Failed, Refused
from shared.event_log import Conflict, EventLog, New
from shared.events import Blob, ProblemPublished, SubmissionReceived
from shared.ids import derived
from shared.problems import ProblemVersion, compile_problem
from shared.problems.directives import read_directives
from shared.problems.languages import MEDIA, suffix
from shared.wire import Stamp, seal

ACTOR = "service:ingest"
DECISIONS_MAX = 8
GPUS_MAX = 8
SLUG_LENGTH_MAX = 64


class People(Protocol):
    """Who the participants are; the log knows them by account alone."""

    async def account(self, name: str) -> str:
        """The account of a participant's name, opened when it is new."""
        ...


@dataclass(frozen=True)
class Answer:
    """What the read side said."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Stream:
    """A download from the read side, as it comes."""

    status: int
    headers: dict[str, str]
    pieces: AsyncIterator[bytes]


class Reads(Protocol):
    """Who answers reads."""

    async def read(self, path: str, query: str, headers: Mapping[str, str]) -> Answer:
        """Pass one GET on. Errors: Failed if nobody answers."""
        ...

    def stream(self, path: str) -> AbstractAsyncContextManager[Stream]:
        """Pass a download on, piece by piece. Errors: Failed if nobody answers or it breaks off."""
        ...


class Upload(NamedTuple):
    """A submit request as it came."""

    participant: str
    problem: str
    mode: str
    gpus: Sequence[str]
    name: str
    source: bytes
    via: str
    idempotency_key: str | None


@dataclass(frozen=True)
class Receipt:
    """What is promised once SubmissionReceived is in the log."""

    id: str
    number: int
    gpu: str
    deadline_at: datetime
    problem_number: int
    is_replay: bool = False


@dataclass(frozen=True)
class Published:
    """A problem's newest version; `is_new` if this request made it."""

    slug: str
    number: int
    digest: str
    is_new: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Ingest:
    """The commands of participants and authors."""

    log: EventLog
    blobs: Blobs
    people: People
    clock: Callable[[], datetime] = now

    async def submit(self, upload: Upload) -> list[Receipt]:
        """Take a submission in, one for each GPU type. Errors: Refused; Failed."""
        slug = upload.problem.lower()
        domain.check_mode(upload.mode)
        published = domain.known(slug, await self._problem(slug))
        text = domain.file_text(upload.name, upload.source, published)
        directives = read_directives(text)
        domain.check_directives(slug, directives)
        named = list(dict.fromkeys(upload.gpus or directives.gpus))
        asked: list[str | None] = [*named] or [None]
        if len(asked) > GPUS_MAX:
            raise Refused("unknown_gpu", f"at most {GPUS_MAX} GPU types at once", "gpu")
        gpus = [domain.choose_gpu(gpu, directives, published) for gpu in asked]
        command = domain.Submit(
            account=await self.people.account(upload.participant),
            problem=slug,
            mode=upload.mode,
            gpu=None,
            name=domain.safe_name(upload.name),
            source=upload.source,
            at=self.clock(),
            via=upload.via,
            request_hash=_request_hash(slug, upload),
        )
        blob = await self.blobs.put(upload.source, MEDIA[suffix(upload.name)])
        return [
            await self._receive(replace(command, gpu=gpu), published, blob, upload.idempotency_key)
            for gpu in dict.fromkeys(gpus)
        ]

    async def _receive(
        self, command: domain.Submit, published: ProblemPublished, blob: Blob, key: str | None
    ) -> Receipt:
        assert command.gpu is not None
        scope = f"{command.account}/{key}" if key else new_id()
        submission = derived(scope, command.gpu)
        fact = domain.receive(command, published, command.gpu, blob)
        agg = subjects.submission(submission)
        stamp = Stamp(new_id(), command.at, f"account:{command.account}", submission, "http")
        try:
            number = await self.log.append(New(seal(fact, agg, stamp), expected=0))
        except Conflict:
            return await self._replay(submission, command)
        assert isinstance(fact, SubmissionReceived)
        return _receipt(submission, number, fact)

    async def _replay(self, submission: str, command: domain.Submit) -> Receipt:
        first = (await self.log.history(subjects.submission(submission)))[0]
        fact = first.fact
        assert isinstance(fact, SubmissionReceived)
        if fact.request_hash != command.request_hash:
            raise Refused(
                "idempotency_key_reused", "this Idempotency-Key came with another request before"
            )
        return replace(_receipt(submission, first.seq, fact), is_replay=True)

    async def _problem(self, slug: str) -> domain.Problem:
        try:
            agg = subjects.problem(slug)
        except ValueError:
            return domain.Problem()
        history = await self.log.history(agg)
        return domain.problems.fold(event.fact for event in history)

    async def publish(self, slug: str, files: Mapping[str, bytes], actor: str) -> Published:
        """Make these files the problem's newest version. Errors: Refused; Failed."""
        if len(slug) > SLUG_LENGTH_MAX:
            raise Refused("bad_problem", f"a slug has at most {SLUG_LENGTH_MAX} characters", "slug")
        version = await asyncio.to_thread(compile_problem, slug, files)
        fact = await self._keep(version)
        agg = subjects.problem(slug)
        for _ in range(DECISIONS_MAX):
            history = await self.log.history(agg)
            state = domain.problems.fold(event.fact for event in history)
            facts = domain.problems.decide(domain.Publish(fact), state)
            if not facts:
                newest = domain.known(slug, state)
                return Published(slug, newest.number, newest.digest, False, version.warnings)
            (new,) = facts
            assert isinstance(new, ProblemPublished)
            stamp = Stamp(new_id(), self.clock(), actor, slug, "http")
            expected = history[-1].seq if history else 0
            try:
                await self.log.append(New(seal(new, agg, stamp), expected))
            except Conflict:
                continue
            return Published(slug, new.number, new.digest, True, version.warnings)
        raise Failed(f"problem {slug} changed {DECISIONS_MAX} times while it was being published")

    async def _keep(self, version: ProblemVersion) -> ProblemPublished:
        """Blobs first, then the event that names them."""
        manifest = await self.blobs.put(version.manifest, "application/json")
        files = {name: await self.blobs.put(data) for name, data in version.files.items()}
        return ProblemPublished(
            number=0,
            digest=version.digest,
            title=version.title,
            manifest=manifest,
            files=files,
            gpus=list(version.gpus),
            cases_count=dict(version.cases_count),
            ranking_by=version.ranking_by,
            budgets_s=dict(version.budgets_s),
            source_bytes_max=version.source_bytes_max,
            languages=list(version.languages),
        )


def _receipt(submission: str, number: int, fact: SubmissionReceived) -> Receipt:
    return Receipt(submission, number, fact.gpu, fact.deadline_at, fact.problem_number)


def _request_hash(slug: str, upload: Upload) -> str:
    """What two requests under one Idempotency-Key must have in common."""
    digest = hashlib.sha256(upload.source).hexdigest()
    said = "\n".join((slug, upload.mode, *sorted(upload.gpus), upload.name, digest))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
