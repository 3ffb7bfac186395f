"""What a submit request asks for, what it is to leave in the log, and what it is promised."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from ingest.domain import quotas, submissions
from ingest.domain.callers import Caller
from ingest.domain.problems import Problem
from ingest.domain.quotas import Balance, Quota
from ingest.service.ports import Note, QueueSeen
from shared.blobs import named
from shared.clock import new_id
from shared.errors import Refused
from shared.events import Blob, ProblemPublished, SubmissionReceived
from shared.ids import derived
from shared.problems.directives import Directives
from shared.problems.languages import MEDIA, suffix
from shared.wire import Stamp

GPUS_MAX = 8
# For so long a key means the request that it first came with.
KEY_LIFE_S = 24 * 3600
HTTP = "http"


class Upload(NamedTuple):
    """A submit request as it came; an operator who vouches for it may come after the deadline."""

    caller: Caller
    problem: str
    mode: str
    gpus: Sequence[str]
    name: str
    source: bytes
    via: str
    idempotency_key: str | None
    vouched_by: str = ""
    note: Note = Note()
    case: int = 0

    @property
    def blob(self) -> Blob:
        """The name that its source will have."""
        return named(self.source, MEDIA[suffix(self.name)])

    def scope(self) -> str:
        """What its submissions' ids follow from: with a key, from who sent it, where, and which.

        No key and no account has a space in it.
        """
        key, account = self.idempotency_key, self.caller.id
        if key is None:
            return new_id()
        return f"{account}/{key}" if self.via == HTTP else f"{account} {self.via} {key}"

    def gpus_of(self, directives: Directives, published: ProblemPublished) -> list[str]:
        """The GPU types it is for, each once. Errors: Refused `unknown_gpu`."""
        named = list(dict.fromkeys(self.gpus or directives.gpus))
        asked: list[str | None] = [*named] or [None]
        if len(asked) > GPUS_MAX:
            raise Refused("unknown_gpu", f"at most {GPUS_MAX} GPU types at once", "gpu")
        chosen = [submissions.choose_gpu(gpu, directives, published) for gpu in asked]
        return list(dict.fromkeys(chosen))

    def hash(self, slug: str, blob: Blob) -> str:
        """What two requests under one Idempotency-Key must have in common."""
        noted = self.note if self.note != Note() else ()
        named = [slug, self.mode, *sorted(self.gpus), self.name, blob.digest]
        only = [f"case {self.case}"] if self.case else []
        said = "\n".join([*named, *(one or "" for one in noted), *only])
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Receipt:
    """What is promised once SubmissionReceived is in the log; `quota` is what it leaves.

    `queue` is what was in front of the request when it came; None if nobody knows.
    """

    id: str
    number: int
    gpu: str
    deadline_at: datetime
    problem_number: int
    quota: Balance | None
    is_replay: bool = False
    queue: QueueSeen | None = None


@dataclass(frozen=True)
class Batch:
    """The submissions that one request makes: all are taken in, or none.

    `use` counts the days on which its key came before. What meets a `full` queue may still be the
    repeat of what came when it was not.
    """

    upload: Upload
    scope: str
    problem: str
    wanted: Sequence[SubmissionReceived]
    at: datetime
    full: Refused | None = None
    use: int = 0

    @property
    def account(self) -> str:
        """Whose they are."""
        return self.upload.caller.id

    @property
    def has_key(self) -> bool:
        """Whether the request may come twice."""
        return self.upload.idempotency_key is not None

    @cached_property
    def facts(self) -> Mapping[str, SubmissionReceived]:
        """The submissions by id."""
        scope = f"{self.scope} {self.use}" if self.use else self.scope
        return {derived(scope, str(index)): one for index, one in enumerate(self.wanted)}

    @property
    def buckets(self) -> dict[str, str]:
        """The bucket that each takes of."""
        return {
            submission: quotas.bucket(fact.problem, fact.gpu, fact.mode)
            for submission, fact in self.facts.items()
        }

    def stamp(self, submission: str) -> Stamp:
        """Who says it, when, and of which submission."""
        return Stamp(new_id(), self.at, f"account:{self.account}", submission, "http")


class Found(NamedTuple):
    """An account's quotas at a version, everybody's limits, and the problem, as they are now."""

    own: Quota
    version: int
    everybody: Quota
    problem: Problem = Problem()

    def left(self, fact: SubmissionReceived, at: datetime) -> Balance | None:
        """What is left of the bucket that a submission takes of."""
        name = quotas.bucket(fact.problem, fact.gpu, fact.mode)
        return quotas.balance(name, self.own, self.everybody, at)

    def receipt(
        self, submission: str, number: int, fact: SubmissionReceived, at: datetime
    ) -> Receipt:
        """What is promised of a submission."""
        return Receipt(
            id=submission,
            number=number,
            gpu=fact.gpu,
            deadline_at=fact.deadline_at,
            problem_number=fact.problem_number,
            quota=self.left(fact, at),
        )
