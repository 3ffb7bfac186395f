"""Wires what commands need on this machine together."""

import io
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from shared.errors import Refused
from warpboard.domain import names
from warpboard.domain.demand import Demand, demand_environ
from warpboard.processes.state import describe, down
from warpboard.screen import Screen
from warpboard.service.context import AppContext, PlatformTarget
from warpboard.service.machine import LogMaintenance, Platform, Row
from warpboard.service.ports import Api, Caller, Disk, Harness
from warpboard.settings import (
    Settings,
    find_folder,
    find_token,
    find_url,
    is_local_url,
    load,
    validate_url,
)
from warpboard.stores import ReportFolder, TokenFile


@dataclass(frozen=True)
class LocalMachine:
    """This machine; services get this process's environment with `overrides` on top."""

    environ: Mapping[str, str]
    overrides: Mapping[str, str] = field(default_factory=dict)

    async def supervise(
        self,
        folder: Path,
        demand: Demand,
        work: Callable[[Platform], Awaitable[None]],
        *,
        has_discord: bool = False,
    ) -> signal.Signals | None:
        """Run a platform while `work` lasts; return the signal that ended it, if one did."""
        from warpboard.processes.platform import Platform, supervise
        from warpboard.processes.services import local_services, with_discord

        demanded = demand_environ(demand)
        effective = demanded if demand.is_own else demanded | dict(self.environ)
        overrides = {name: effective[name] for name in demanded} | dict(self.overrides)
        table = with_discord if has_discord else local_services
        return await supervise(Platform(folder, self.environ, overrides, table), work)

    def describe(self, folder: Path) -> Sequence[Row]:
        """Return the state of the processes of a folder's platform."""
        return describe(folder)

    def down(self, folder: Path) -> bool:
        """Stop a folder's platform; false if it was not up."""
        return down(folder)


@dataclass(frozen=True)
class Wiring:
    """Resolves a command's options against the environment's settings."""

    settings: Settings
    keys: TokenFile

    def participant(self, place: PlatformTarget) -> str | None:
        """Return the caller's name; None if a token identifies them."""
        return self._caller(place, self.url(place)).participant

    def _caller(self, place: PlatformTarget, url: str) -> Caller:
        """Return the caller: from --as, else the token's owner; a local platform believes a bare
        name.
        """
        if place.participant:
            return Caller(names.participant(place.participant))
        token = self.settings.token_for(url) or self.keys.token(url)
        return Caller(None if token else self._local(url), token)

    def _local(self, url: str) -> str | None:
        return self.settings.participant if is_local_url(url) else None

    def url(self, place: PlatformTarget) -> str:
        """Return the platform's URL; the command line takes precedence over the environment."""
        if place.url:
            return validate_url(place.url, "--url")
        if self.settings.url and place.folder is None:
            return self.settings.url
        return find_url(place.folder, Path.cwd())

    def api(self, place: PlatformTarget) -> AbstractAsyncContextManager[Api]:
        """Return the API for a command's options: as an operator, if they name one."""
        if place.operator:
            return self.office(place)
        url = self.url(place)
        return _open_api(url, self._caller(place, url))

    def operator(self, place: PlatformTarget) -> str:
        """Return the name of the acting operator."""
        operator = place.operator
        return names.participant(operator, "--operator") if operator else self.settings.participant

    def _operator_token(self, place: PlatformTarget) -> str | None:
        """Return the operators' token; a folder's token is never sent to a platform elsewhere."""
        is_elsewhere = place.url or (self.settings.url and place.folder is None)
        folder_token = None if is_elsewhere else find_token(find_folder(place.folder, Path.cwd()))
        return folder_token or self.settings.operator_token

    def _operator_caller(self, place: PlatformTarget) -> Caller | None:
        """Return the operator as a caller: with the platform's own token, else with a
        participant's.
        """
        if token := self._operator_token(place):
            return Caller(token=token, operator=self.operator(place))
        url = self.url(place)
        token = self.settings.token_for(url) or self.keys.token(url)
        return Caller(token=token) if token else None

    def office(self, place: PlatformTarget) -> AbstractAsyncContextManager[Api]:
        """Return the API as an operator. Raises Refused without a token."""
        caller = self._operator_caller(place)
        if caller is None:
            raise Refused(
                "no_operator_token",
                "operators show a token: warpboard login --scope admin, or the platform's own in "
                "WARPBOARD_OPERATOR_TOKEN, or name the --folder of one on this machine",
            )
        return _open_api(self.url(place), caller)

    def look(self, place: PlatformTarget) -> AbstractAsyncContextManager[Api]:
        """Return the API as an operator if there is a token, else as anybody."""
        return self.office(place) if self._operator_caller(place) else self.api(place)

    def connect(
        self, url: str, participant: str | None = None, token: str | None = None
    ) -> AbstractAsyncContextManager[Api]:
        """Return the API at a URL."""
        name = None if token else participant or self._local(url)
        return _open_api(url, Caller(name, token))

    async def serve(self, place: PlatformTarget) -> int:
        """Serve tools to a program that writes kernels. Raises Refused without the SDK."""
        try:
            # It takes as long to load as everything else, and no other command needs it.
            from warpboard.mcp.server import serve
        except ModuleNotFoundError as error:
            reason = f"this needs {error.name}: pip install 'warpboard-cli[mcp]'"
            raise Refused("no_mcp", reason) from error
        return await serve(lambda: self.api(place), _load_disk(), _load_harness())


# Each of these imports takes about as long as everything else, and few commands need them all.


def _open_api(url: str, caller: Caller) -> AbstractAsyncContextManager[Api]:
    from warpboard.ingest_http import open_api

    return open_api(url, caller)


def _load_disk() -> Disk:
    from warpboard.local_run import LocalDisk

    return LocalDisk()


def _load_harness() -> Harness:
    from warpboard.local_run import LocalHarness

    return LocalHarness()


def _load_books(settings: Settings) -> LogMaintenance:
    from warpboard.processes.maintenance import LocalLogMaintenance

    return LocalLogMaintenance(settings.environ)


def create_context() -> AppContext:
    """Create what the commands need on this machine. Raises Refused."""
    settings = load()
    wiring = Wiring(settings, TokenFile(settings.credentials))
    return AppContext(
        screen=Screen(_make_tolerant(sys.stdout), _make_tolerant(sys.stderr)),
        load_disk=_load_disk,
        load_harness=_load_harness,
        reports=ReportFolder(settings.reports),
        machine=LocalMachine(settings.environ),
        load_books=lambda: _load_books(settings),
        keys=wiring.keys,
        url=wiring.url,
        api=wiring.api,
        office=wiring.office,
        look=wiring.look,
        connect=wiring.connect,
        participant=wiring.participant,
        operator=wiring.operator,
        folder=lambda place: find_folder(place.folder, Path.cwd()),
        serve=wiring.serve,
    )


class NullStream(io.StringIO):
    """A stream that discards what is written."""

    def write(self, text: str) -> int:
        """Discard the text."""
        return len(text)


def _make_tolerant(stream: TextIO | None) -> TextIO:
    """Make a stream escape what its encoding lacks, instead of failing.

    A stream that was closed from the start is replaced by one that discards its text.
    """
    if stream is None:
        return NullStream()
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream
