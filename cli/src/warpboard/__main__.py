"""Wires the command line together."""

import io
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from shared.errors import Refused
from warpboard import processes
from warpboard.credentials import TokenFile
from warpboard.domain import names
from warpboard.domain.demand import Demand, environ
from warpboard.ingest_http import Caller, HttpApi, connected
from warpboard.local_run import LocalDisk, LocalHarness
from warpboard.plots import PngPlots
from warpboard.processes.books import LocalBooks
from warpboard.reports import ReportFolder
from warpboard.settings import (
    Settings,
    checked_url,
    found_folder,
    found_token,
    found_url,
    is_here,
    load,
)
from warpboard.terminal.desk import Desk, Place
from warpboard.terminal.group import commands
from warpboard.terminal.screen import TerminalScreen


@dataclass(frozen=True)
class LocalMachine:
    """This machine; services get this process's environment, and over it `overrides`."""

    environ: Mapping[str, str]
    overrides: Mapping[str, str] = field(default_factory=dict)

    async def supervise(
        self,
        folder: Path,
        demand: Demand,
        work: Callable[[processes.Platform], Awaitable[None]],
        *,
        has_discord: bool = False,
    ) -> signal.Signals | None:
        """Run a platform for as long as the work takes; the signal that ended it, if one did."""
        said = environ(demand)
        told = said if demand.is_own else said | dict(self.environ)
        overrides = {name: told[name] for name in said} | dict(self.overrides)
        table = processes.with_discord if has_discord else processes.local_services
        platform = processes.Platform(folder, self.environ, overrides, table)
        return await processes.supervise(platform, work)

    def describe(self, folder: Path) -> Sequence[processes.Row]:
        """How the processes of a folder's platform are."""
        return processes.describe(folder)

    def down(self, folder: Path) -> bool:
        """Stop a folder's platform; False if it was not up."""
        return processes.down(folder)


@dataclass(frozen=True)
class Wiring:
    """What a command's options mean under the environment's settings."""

    settings: Settings
    keys: TokenFile

    def participant(self, place: Place) -> str | None:
        """Who asks, by name; None if a token says it."""
        return self._caller(place, self.url(place)).participant

    def _caller(self, place: Place, url: str) -> Caller:
        """Who --as names, else whom the token is of; a local platform believes a bare name."""
        if place.participant:
            return Caller(names.participant(place.participant))
        token = self.settings.token_for(url) or self.keys.token(url)
        return Caller(None if token else self._local(url), token)

    def _local(self, url: str) -> str | None:
        return self.settings.participant if is_here(url) else None

    def url(self, place: Place) -> str:
        """Where the platform is: what the command line says comes before the environment."""
        if place.url:
            return checked_url(place.url, "--url")
        if self.settings.url and place.folder is None:
            return self.settings.url
        return found_url(place.folder, Path.cwd())

    def api(self, place: Place) -> AbstractAsyncContextManager[HttpApi]:
        """The API that a command's options name: as an operator, if they name one."""
        if place.operator:
            return self.office(place)
        url = self.url(place)
        return connected(url, self._caller(place, url))

    def operator(self, place: Place) -> str:
        """Which operator acts."""
        given = place.operator
        return names.participant(given, "--operator") if given else self.settings.participant

    def _operator_token(self, place: Place) -> str | None:
        """A folder's token never goes to a platform that is somewhere else."""
        is_elsewhere = place.url or (self.settings.url and place.folder is None)
        found = None if is_elsewhere else found_token(found_folder(place.folder, Path.cwd()))
        return found or self.settings.operator_token

    def _officer(self, place: Place) -> Caller | None:
        """Who acts for the platform: by its own token, else by one of a participant's."""
        if token := self._operator_token(place):
            return Caller(token=token, operator=self.operator(place))
        url = self.url(place)
        token = self.settings.token_for(url) or self.keys.token(url)
        return Caller(token=token) if token else None

    def office(self, place: Place) -> AbstractAsyncContextManager[HttpApi]:
        """The API as an operator. Errors: Refused without a token."""
        officer = self._officer(place)
        if officer is None:
            raise Refused(
                "no_operator_token",
                "operators show a token: warpboard login --scope admin, or the platform's own in "
                "WARPBOARD_OPERATOR_TOKEN, or name the --folder of one on this machine",
            )
        return connected(self.url(place), officer)

    def look(self, place: Place) -> AbstractAsyncContextManager[HttpApi]:
        """The API as an operator where there is a token, else as anybody."""
        return self.office(place) if self._officer(place) else self.api(place)

    def connect(
        self, url: str, participant: str | None = None, token: str | None = None
    ) -> AbstractAsyncContextManager[HttpApi]:
        """The API at a URL."""
        name = None if token else participant or self._local(url)
        return connected(url, Caller(name, token))

    async def serve(self, place: Place) -> int:
        """Serve tools to a program that writes kernels. Errors: Refused without the SDK."""
        try:
            # It takes as long to load as all the rest, and no other command needs it.
            from warpboard.mcp.serving import serve
        except ModuleNotFoundError as error:
            what = f"this needs {error.name}: pip install 'warpboard-cli[mcp]'"
            raise Refused("no_mcp", what) from error
        return await serve(lambda: self.api(place), LocalDisk(), LocalHarness())


def desk() -> Desk:
    """What the commands have at hand on this machine. Errors: Refused."""
    settings = load()
    wiring = Wiring(settings, TokenFile(settings.credentials))
    return Desk(
        screen=TerminalScreen(_bearing(sys.stdout), _bearing(sys.stderr)),
        disk=LocalDisk(),
        harness=LocalHarness(),
        reports=ReportFolder(settings.reports),
        machine=LocalMachine(settings.environ),
        books=LocalBooks(settings.environ),
        keys=wiring.keys,
        plots=PngPlots(),
        url=wiring.url,
        api=wiring.api,
        office=wiring.office,
        look=wiring.look,
        connect=wiring.connect,
        participant=wiring.participant,
        operator=wiring.operator,
        folder=lambda folder: found_folder(folder, Path.cwd()),
        serve=wiring.serve,
    )


class Nowhere(io.StringIO):
    """A stream that nobody reads, and that keeps nothing."""

    def write(self, text: str) -> int:
        """Nothing, successfully."""
        return len(text)


def _bearing(stream: TextIO | None) -> TextIO:
    """A stream that shows what its encoding lacks instead of ending the command.

    Where it was closed from the start, nobody reads it.
    """
    if stream is None:
        return Nowhere()
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream


def main() -> None:
    """Run the command line and end the process."""
    commands(desk)(prog_name="warpboard")


if __name__ == "__main__":
    main()
