"""The ports to the machine on which a platform runs."""

import signal
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from shared.api.audits import AuditRequest
from shared.presentation.responses import JsonObject
from warpboard.domain.demand import Demand


class Row(NamedTuple):
    """One process of the platform on this machine; `pid` is None while it does not run."""

    name: str
    state: str
    pid: int | None
    restarts: int
    address: str


class Platform(Protocol):
    """A platform that runs on this machine."""

    @property
    def url(self) -> str:
        """The URL of its API."""
        ...

    @property
    def rows(self) -> Sequence[Row]:
        """Its processes."""
        ...


class Machine(Protocol):
    """This machine, with platforms in folders."""

    async def supervise(
        self,
        folder: Path,
        demand: Demand,
        work: Callable[[Platform], Awaitable[None]],
        *,
        has_discord: bool = False,
    ) -> signal.Signals | None:
        """Run a platform while `work` lasts; return the signal that ended it, if one did.

        The environment takes precedence over a demand that is not the operator's own. `has_discord`
        adds a simulated Discord with a bot. Raises Refused if the folder is in use, Failed, and the
        errors of the work.
        """
        ...

    def describe(self, folder: Path) -> Sequence[Row]:
        """Return the state of the processes of a folder's platform; empty if it never ran."""
        ...

    def down(self, folder: Path) -> bool:
        """Stop a folder's platform; false if it was not up. Raises Failed."""
        ...


@dataclass(frozen=True)
class AuditOptions:
    """What to audit, and seals that were saved; an audit of a file needs no server."""

    request: AuditRequest
    file: Path | None = None
    seals: Path | None = None


@dataclass(frozen=True)
class ReplayOptions:
    """Which projection to rebuild, from where, and whether readers see the result."""

    projection: str = "ranker"
    source: str = "stream"
    file: Path | None = None
    is_switched: bool = False


@dataclass(frozen=True)
class RepairOptions:
    """How to repair a damaged log: through a new file, in the name of an actor.

    `overwrite` takes the archive's event where the log has a different one; `accept_loss` continues
    without events that exist nowhere any more.
    """

    file: Path
    actor: str
    overwrite: bool = False
    accept_loss: bool = False


class LogMaintenance(Protocol):
    """Maintenance of a folder's log and its projections, by the ranker's commands."""

    async def replay(self, folder: Path, options: ReplayOptions) -> JsonObject:
        """Compare a rebuilt projection with the live one. Raises Refused and Failed."""
        ...

    async def audit(self, folder: Path, options: AuditOptions) -> JsonObject:
        """Audit a leaderboard. Raises Refused and Failed."""
        ...

    async def export(self, folder: Path, file: Path, left_out: Collection[str]) -> JsonObject:
        """Write a backup, whether the platform runs or not. Raises as audit does."""
        ...

    async def import_(
        self, folder: Path, file: Path, actor: str, *, is_incomplete_allowed: bool
    ) -> JsonObject:
        """Restore a backup into the empty log of a platform that is down. Raises as audit does."""
        ...

    async def scrub(self, folder: Path) -> JsonObject:
        """Compare the log with its archive, event by event. Raises as audit does."""
        ...

    async def repair(self, folder: Path, options: RepairOptions) -> JsonObject:
        """Restore missing events in the log of a platform that is down. Raises as audit does."""
        ...

    async def collect(self, folder: Path, *, is_trial: bool) -> JsonObject:
        """Remove blobs that no event names, or list them with `is_trial`. Raises as audit does."""
        ...
