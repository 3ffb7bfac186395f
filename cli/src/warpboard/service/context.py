"""What every command has access to, and how a command prints its answer."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from warpboard.domain.exit_codes import OK
from warpboard.domain.tables import Table
from warpboard.screen import Screen
from warpboard.service.machine import LogMaintenance, Machine
from warpboard.service.ports import Api, Connect, Disk, Harness
from warpboard.stores import ReportFolder, TokenFile


@dataclass(frozen=True)
class PlatformTarget:
    """Which platform, as which participant or operator; None means as in the environment."""

    url: str | None = None
    participant: str | None = None
    folder: Path | None = None
    operator: str | None = None


@dataclass(frozen=True)
class AppContext:
    """Everything that commands need; `place` and `as_json` are options of the running command."""

    screen: Screen
    load_disk: Callable[[], Disk]
    load_harness: Callable[[], Harness]
    reports: ReportFolder
    machine: Machine
    load_books: Callable[[], LogMaintenance]
    keys: TokenFile
    url: Callable[[PlatformTarget], str]
    api: Callable[[PlatformTarget], AbstractAsyncContextManager[Api]]
    office: Callable[[PlatformTarget], AbstractAsyncContextManager[Api]]
    look: Callable[[PlatformTarget], AbstractAsyncContextManager[Api]]
    connect: Connect
    participant: Callable[[PlatformTarget], str | None]
    operator: Callable[[PlatformTarget], str]
    folder: Callable[[PlatformTarget], Path]
    serve: Callable[[PlatformTarget], Coroutine[Any, Any, int]]
    place: PlatformTarget = PlatformTarget()
    as_json: bool = False

    @cached_property
    def disk(self) -> Disk:
        """The files here; loading what reads problems takes a moment."""
        return self.load_disk()

    @cached_property
    def harness(self) -> Harness:
        """The harness on this machine; loading it takes a moment."""
        return self.load_harness()

    @cached_property
    def books(self) -> LogMaintenance:
        """The maintenance of logs; loading it takes a moment."""
        return self.load_books()

    def show(self, document: object, parts: Iterable[str | Table], note: str = "") -> int:
        """Print the answer: with --json a document, else lines and tables, and a note beside it.

        Return OK.
        """
        if self.as_json:
            self.screen.json(document)
            return OK
        for part in parts:
            if isinstance(part, Table):
                self.screen.table(part)
            else:
                self.screen.say(part)
        if note:
            self.screen.note(note)
        return OK

    def report(self, *parts: str | Table) -> None:
        """Print steps of a long command; with --json, lines go to stderr and tables nowhere."""
        for part in parts:
            if not self.as_json:
                self.show(None, [part])
            elif isinstance(part, str):
                self.screen.note(part)


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The event that a request wrote: null if nothing had to change, missing if it writes none."""

    event: str | msgspec.UnsetType | None = msgspec.UNSET
    seq: int | None = None


async def send_action(
    context: AppContext,
    api: Api,
    method: str,
    *path: str | int,
    body: Mapping[str, object] | None = None,
) -> int:
    """Send a request under /v1 and print the event it made; repeating it is harmless.

    Raises Refused and Failed.
    """
    answer = await api.act(RecordedEvent, method, *path, body=body or {})
    recorded = answer.value
    if recorded.event is msgspec.UNSET:
        line = "done"
    elif recorded.event is None:
        line = "nothing to do: it is so already"
    else:
        line = f"done: {recorded.event}, event {recorded.seq}"
    return context.show(answer.document, [line])
