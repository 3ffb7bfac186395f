"""What the commands need of the machine on which a platform runs."""

import signal
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warpboard.domain.answers import Answer
from warpboard.domain.demand import Demand


class Row(Protocol):
    """One process of the platform on this machine."""

    @property
    def name(self) -> str:
        """Which service or server it is."""
        ...

    @property
    def state(self) -> str:
        """How it is."""
        ...

    @property
    def pid(self) -> int | None:
        """Its process, while it has one."""
        ...

    @property
    def restarts(self) -> int:
        """How often it was brought back."""
        ...

    @property
    def address(self) -> str:
        """Where it answers."""
        ...


class Platform(Protocol):
    """A platform that runs on this machine."""

    @property
    def url(self) -> str:
        """Where its API answers."""
        ...

    @property
    def rows(self) -> Sequence[Row]:
        """How each of its processes is."""
        ...


class Machine(Protocol):
    """This machine, on which platforms run, each in its folder."""

    async def supervise(
        self,
        folder: Path,
        demand: Demand,
        work: Callable[[Platform], Awaitable[None]],
        *,
        has_discord: bool = False,
    ) -> signal.Signals | None:
        """Run a platform for as long as the work takes; the signal that ended it, if one did.

        A demand that is not the operator's own gives way to what the environment says;
        `has_discord` is with a simulated Discord, and a bot there.
        Errors: Refused if the folder is in use; Failed; those of the work.
        """
        ...

    def describe(self, folder: Path) -> Sequence[Row]:
        """How the processes of a folder's platform are; empty if it never ran there."""
        ...

    def down(self, folder: Path) -> bool:
        """Stop a folder's platform; False if it was not up. Errors: Failed."""
        ...


@dataclass(frozen=True)
class Auditing:
    """What is audited: a leaderboard, at a moment or now; of a file, no server is needed."""

    problem: str
    gpu: str
    version: int | None = None
    as_of: str | None = None
    as_of_seq: int | None = None
    file: Path | None = None
    keys: tuple[str, ...] = ()
    seals: Path | None = None


@dataclass(frozen=True)
class Replaying:
    """Which projection is folded anew, from where, and whether readers are to see it."""

    projection: str = "ranker"
    source: str = "stream"
    file: Path | None = None
    is_switched: bool = False


@dataclass(frozen=True)
class Repairing:
    """How a damaged log is repaired: by way of a new file, in the name of an actor.

    `overwrite` takes the archive's event where the log has another one; `accept_loss` goes
    on without events that are nowhere any more.
    """

    file: Path
    actor: str
    overwrite: bool = False
    accept_loss: bool = False


class Books(Protocol):
    """The log of a folder's platform, and what is made of it: by the ranker's own commands."""

    async def replay(self, folder: Path, asked: Replaying) -> Answer:
        """How a projection folded anew compares with the live one. Errors: Refused; Failed."""
        ...

    async def audit(self, folder: Path, asked: Auditing) -> Answer:
        """The report on a leaderboard. Errors: Refused; Failed."""
        ...

    async def export(self, folder: Path, file: Path, left_out: Collection[str]) -> Answer:
        """What was backed up, whether the platform runs or not. Errors: as audit."""
        ...

    async def import_(
        self, folder: Path, file: Path, actor: str, *, is_incomplete_allowed: bool
    ) -> Answer:
        """What is now in the log, empty before, of a platform that is down. Errors: as audit."""
        ...

    async def scrub(self, folder: Path) -> Answer:
        """How the log compares with its archive, event by event. Errors: as audit."""
        ...

    async def repair(self, folder: Path, asked: Repairing) -> Answer:
        """What was put back into the log of a platform that is down. Errors: as audit."""
        ...

    async def collect(self, folder: Path, *, is_trial: bool) -> Answer:
        """Which blobs that no event names were, or would be, removed. Errors: as audit."""
        ...
