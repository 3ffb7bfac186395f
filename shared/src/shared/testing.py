"""Support for tests: given/when/then, servers, patience, an example of each event."""

import asyncio
import inspect
import secrets
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import msgspec
from msgspec import inspect as types

from shared.clock import now
from shared.decider import Command, Decider, State
from shared.errors import Refused
from shared.events import Fact
from shared.postgres import create_database, drop_database
from shared.problems import compile_problem
from shared.problems.report import CheckReport
from shared.servers.postgresql import Postgres

EVENTUALLY_STEP_S = 0.01

Event = TypeVar("Event")
Kind = TypeVar("Kind", bound=Fact)
Found = TypeVar("Found")


@dataclass(frozen=True)
class When(Generic[Command, State, Event]):
    """A history and a command, waiting for what is expected of them."""

    decider: Decider[Command, State, Event]
    history: tuple[Event, ...]
    command: Command

    def then(self, *expected: Event) -> None:
        """The command leads to exactly these events, in this order."""
        decided = self.decider.decide(self.command, self.decider.fold(self.history))
        assert list(decided) == list(expected), f"decided {decided}"

    def then_refused(self, code: str) -> None:
        """The command is refused with this code."""
        answer: Refused | Sequence[Event]
        try:
            answer = self.decider.decide(self.command, self.decider.fold(self.history))
        except Refused as refused:
            answer = refused
        assert isinstance(answer, Refused), f"not refused: decided {answer}"
        assert answer.code == code, f"refused as {answer.code}: {answer.reason}"


@dataclass(frozen=True)
class Given(Generic[Command, State, Event]):
    """A history, waiting for a command."""

    decider: Decider[Command, State, Event]
    history: tuple[Event, ...]

    def when(self, command: Command) -> When[Command, State, Event]:
        """Somebody asks for this."""
        return When(self.decider, self.history, command)


def given(decider: Decider[Command, State, Event], *history: Event) -> Given[Command, State, Event]:
    """A specification: `given(decider, *history).when(command).then(*events)`."""
    return Given(decider, history)


@overload
async def eventually(check: Callable[[], Awaitable[Found]], within_s: float = 60.0) -> Found: ...


@overload
async def eventually(check: Callable[[], Found], within_s: float = 60.0) -> Found: ...


async def eventually(check: Callable[[], Any], within_s: float = 60.0) -> Any:
    """What the check returns as soon as that is true, asked again until then.

    Errors: AssertionError when it was not in that time, with what came last.
    """
    until = time.monotonic() + within_s
    while True:
        found = check()
        value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        assert time.monotonic() < until, f"not within {within_s} s: {value!r} came last"
        await asyncio.sleep(EVENTUALLY_STEP_S)


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """A Postgres of one's own; the DSN of its first database."""
    server = Postgres(folder)
    try:
        dsn = server.start()
        assert server.process is not None, "it was started"
        # Nothing outlives the tests: no commit needs to wait for a disk.
        with (server.data / "postgresql.auto.conf").open("a") as settings:
            settings.write("fsync = off\n")
        server.process.send_signal(signal.SIGHUP)
        yield dsn
    finally:
        server.stop()


@contextmanager
def postgres_database(dsn: str) -> Iterator[str]:
    """A fresh database on a server, dropped after; its DSN."""
    name = f"test_{secrets.token_hex(6)}"
    fresh = create_database(dsn, name)
    try:
        yield fresh
    finally:
        drop_database(dsn, name)


_SCALARS: dict[type, object] = {
    types.IntType: 7,
    types.FloatType: 1.5,
    types.BoolType: True,
    types.DateTimeType: "2026-01-02T03:04:05.678901Z",
}


def _example(kind: types.Type, name: str) -> object:
    match kind:
        case types.ListType() | types.VarTupleType():
            return [_example(kind.item_type, name)]
        case types.TupleType():
            return [_example(one, name) for one in kind.item_types]
        case types.DictType():
            return {_example(kind.key_type, "key"): _example(kind.value_type, name)}
        case types.UnionType():  # Of `X | None`, X: an example leaves nothing out.
            filled = next(one for one in kind.types if not isinstance(one, types.NoneType))
            return _example(filled, name)
        case types.StructType():
            return {field.encode_name: _example(field.type, field.name) for field in kind.fields}
    return f"{name}-1" if isinstance(kind, types.StrType) else _SCALARS[type(kind)]


def example(kind: type[Kind]) -> Kind:
    """An event of a kind with every field filled, the same each time.

    >>> from shared.events import JobFinished
    >>> example(JobFinished)
    JobFinished(run='run-1', verdict='verdict-1')
    """
    return msgspec.convert(_example(types.type_info(kind), ""), kind)


def clean_report(slug: str, files: Mapping[str, bytes]) -> str:
    """What a check of a problem says that finds nothing, without looking. Errors: Refused."""
    report = CheckReport(
        digest=compile_problem(slug, files).digest,
        harness="tests",
        is_clean=True,
        findings=[],
        solutions=[],
        device="tests",
        made_at=now(),
    )
    return report.model_dump_json()
