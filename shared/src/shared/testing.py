"""Test support: given/when/then for deciders, servers, bounded waiting, example events."""

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
from shared.problems.compilation import compile_problem
from shared.problems.report import CheckReport
from shared.servers.postgresql import Postgres

EVENTUALLY_STEP_S = 0.01

Event = TypeVar("Event")
Kind = TypeVar("Kind", bound=Fact)
Value = TypeVar("Value")


@dataclass(frozen=True)
class CommandScenario(Generic[Command, State, Event]):
    """A history and a command whose outcome is asserted."""

    decider: Decider[Command, State, Event]
    history: tuple[Event, ...]
    command: Command

    def then(self, *expected: Event) -> None:
        """Assert that the command leads to exactly these events, in this order."""
        decided = self.decider.decide(self.command, self.decider.fold(self.history))
        assert list(decided) == list(expected), f"decided {decided}"

    def then_refused(self, code: str) -> None:
        """Assert that the command is refused with this code."""
        outcome: Refused | Sequence[Event]
        try:
            outcome = self.decider.decide(self.command, self.decider.fold(self.history))
        except Refused as refused:
            outcome = refused
        assert isinstance(outcome, Refused), f"not refused: decided {outcome}"
        assert outcome.code == code, f"refused as {outcome.code}: {outcome.reason}"


@dataclass(frozen=True)
class HistoryScenario(Generic[Command, State, Event]):
    """A history that awaits a command."""

    decider: Decider[Command, State, Event]
    history: tuple[Event, ...]

    def when(self, command: Command) -> CommandScenario[Command, State, Event]:
        """Add the command."""
        return CommandScenario(self.decider, self.history, command)


def given(
    decider: Decider[Command, State, Event], *history: Event
) -> HistoryScenario[Command, State, Event]:
    """Start a specification: `given(decider, *history).when(command).then(*events)`."""
    return HistoryScenario(decider, history)


@overload
async def eventually(check: Callable[[], Awaitable[Value]], within_s: float = 60.0) -> Value: ...


@overload
async def eventually(check: Callable[[], Value], within_s: float = 60.0) -> Value: ...


async def eventually(check: Callable[[], Any], within_s: float = 60.0) -> Any:
    """Repeat a check until its result is true, and return the result.

    Errors: AssertionError after `within_s`, with the last result.
    """
    until = time.monotonic() + within_s
    while True:
        result = check()
        value = await result if inspect.isawaitable(result) else result
        if value:
            return value
        assert time.monotonic() < until, f"not within {within_s} s; the last result was {value!r}"
        await asyncio.sleep(EVENTUALLY_STEP_S)


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """Start a Postgres, and yield the DSN of its first database."""
    server = Postgres(folder)
    try:
        dsn = server.start()
        assert server.process is not None, "it was started"
        # Nothing outlives the tests, so commits need not wait for the disk.
        with (server.data / "postgresql.auto.conf").open("a") as settings:
            settings.write("fsync = off\n")
        server.process.send_signal(signal.SIGHUP)
        yield dsn
    finally:
        server.stop()


@contextmanager
def postgres_database(dsn: str) -> Iterator[str]:
    """Create a database, yield its DSN, and drop it afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    database_dsn = create_database(dsn, name)
    try:
        yield database_dsn
    finally:
        drop_database(dsn, name)


_SCALARS: dict[type, object] = {
    types.IntType: 7,
    types.FloatType: 1.5,
    types.BoolType: True,
    types.DateTimeType: "2026-01-02T03:04:05.678901Z",
}


def _example_value(kind: types.Type, name: str) -> object:
    match kind:
        case types.ListType() | types.VarTupleType():
            return [_example_value(kind.item_type, name)]
        case types.TupleType():
            return [_example_value(item_type, name) for item_type in kind.item_types]
        case types.DictType():
            return {_example_value(kind.key_type, "key"): _example_value(kind.value_type, name)}
        case types.UnionType():  # An example of `X | None` is an X.
            inner = next(part for part in kind.types if not isinstance(part, types.NoneType))
            return _example_value(inner, name)
        case types.StructType() | types.DataclassType():
            return {
                field.encode_name: _example_value(field.type, field.name) for field in kind.fields
            }
    return f"{name}-1" if isinstance(kind, types.StrType) else _SCALARS[type(kind)]


def example_event(kind: type[Kind]) -> Kind:
    """Return an event of a type with every field filled, the same each time.

    >>> from shared.events import JobFinished
    >>> example_event(JobFinished)
    JobFinished(run='run-1', verdict='verdict-1')
    """
    return msgspec.convert(_example_value(types.type_info(kind), ""), kind)


def clean_report(slug: str, files: Mapping[str, bytes]) -> str:
    """Return the report of a check without findings, without running it. Errors: Refused."""
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
