"""What every command has access to: the settings, the API, the output, and this machine."""

import shlex
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from shared.errors import Refused
from warpboard.api import Api, Caller, open_api
from warpboard.domain import names
from warpboard.domain.output import OK, Table
from warpboard.screen import NullStream, Screen
from warpboard.settings import (
    ReportFolder,
    Settings,
    TokenFile,
    find_folder,
    find_token,
    find_url,
    is_local_url,
    load,
    validate_url,
)

if TYPE_CHECKING:
    from warpboard.local_run import LocalHarness


@dataclass(frozen=True)
class PlatformTarget:
    """Which platform, as which participant or operator; None means as in the environment."""

    url: str | None = None
    participant: str | None = None
    folder: Path | None = None
    operator: str | None = None


@dataclass(frozen=True)
class AppContext:
    """Everything that commands need; `place`, `as_json` and `is_wide` are options of the command.

    `overrides` are settings of the services that `up` starts; they precede all others.
    """

    settings: Settings
    screen: Screen
    tokens: TokenFile
    reports: ReportFolder
    place: PlatformTarget = PlatformTarget()
    as_json: bool = False
    is_wide: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def harness(self) -> "LocalHarness":
        """The harness on this machine; loading it takes a moment."""
        from warpboard.local_run import LocalHarness

        return LocalHarness()

    @property
    def folder(self) -> Path:
        """The data directory of the platform on this machine."""
        return find_folder(self.place.folder, Path.cwd())

    @property
    def url(self) -> str:
        """The platform's URL; the command line takes precedence over the environment."""
        if self.place.url:
            return validate_url(self.place.url, "--url")
        if self.settings.url and self.place.folder is None:
            return self.settings.url
        return find_url(self.place.folder, Path.cwd())

    @property
    def participant(self) -> str | None:
        """The caller's name; None if a token identifies them."""
        return self._caller(self.url).participant

    @property
    def operator(self) -> str:
        """The name of the acting operator."""
        operator = self.place.operator
        return names.participant(operator, "--operator") if operator else self.settings.participant

    def command(self, words: str) -> str:
        """Return a command of this program for the same platform and caller, to be typed.

        >>> from warpboard.context import create_context
        >>> context = create_context().at(PlatformTarget(participant="ada"))
        >>> context.command("submission show 12")
        'warpboard submission show 12 --as ada'
        """
        place = self.place
        options = {"--url": place.url, "--folder": place.folder, "--as": place.participant}
        named = (
            f" {option} {shlex.quote(str(value))}" for option, value in options.items() if value
        )
        return f"warpboard {words}{''.join(named)}"

    def at(self, place: PlatformTarget) -> "AppContext":
        """Return the same for another platform or caller."""
        return replace(self, place=place)

    def api(self) -> AbstractAsyncContextManager[Api]:
        """Open the API for the command's options: as an operator, if they name one."""
        if self.place.operator:
            return self.operator_api()
        url = self.url
        return open_api(url, self._caller(url))

    def operator_api(self) -> AbstractAsyncContextManager[Api]:
        """Open the API as an operator. Raises Refused without a token."""
        caller = self._operator_caller()
        if caller is None:
            raise Refused(
                "no_operator_token",
                "operators show a token: warpboard login --scope admin, or the platform's own in "
                "WARPBOARD_OPERATOR_TOKEN, or name the --folder of one on this machine",
            )
        return open_api(self.url, caller)

    def viewer_api(self) -> AbstractAsyncContextManager[Api]:
        """Open the API as an operator if there is a token, else as anybody."""
        return self.operator_api() if self._operator_caller() else self.api()

    def connect(
        self, url: str, participant: str | None = None, token: str | None = None
    ) -> AbstractAsyncContextManager[Api]:
        """Open the API at a URL with a token, or as a participant, else as the current user."""
        name = None if token else participant or self._local_name(url)
        return open_api(url, Caller(name, token))

    def _token(self, url: str) -> str | None:
        return self.settings.token_for(url) or self.tokens.token(url)

    def _local_name(self, url: str) -> str | None:
        return self.settings.participant if is_local_url(url) else None

    def _caller(self, url: str) -> Caller:
        """Return the caller of --as, else the token's owner; a local platform believes a name."""
        if self.place.participant:
            return Caller(names.participant(self.place.participant))
        token = self._token(url)
        return Caller(None if token else self._local_name(url), token)

    def _operator_caller(self) -> Caller | None:
        """Return the operator as a caller, by the platform's own token or a participant's.

        A folder's token is never sent to a platform elsewhere.
        """
        is_elsewhere = self.place.url or (self.settings.url and self.place.folder is None)
        folder_token = None if is_elsewhere else find_token(self.folder)
        if token := folder_token or self.settings.operator_token:
            return Caller(token=token, operator=self.operator)
        token = self._token(self.url)
        return Caller(token=token) if token else None

    def show(self, document: object, parts: Iterable[str | Table], note: str = "") -> int:
        """Print the answer: with --json a document, else lines and tables, and a note beside it.

        Return OK.
        """
        if self.as_json:
            self.screen.json(document)
            return OK
        left_out: dict[str, None] = {}
        for part in parts:
            if isinstance(part, Table):
                left_out |= dict.fromkeys(self.screen.table(part, is_wide=self.is_wide))
            else:
                self.screen.say(part)
        if left_out:
            self.screen.note(f"--wide also shows: {', '.join(left_out)}")
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
        line = "nothing to do: this is already the case"
    else:
        line = f"done: {recorded.event}, event {recorded.seq}"
    return context.show(answer.document, [line])


def create_context() -> AppContext:
    """Create what the commands need on this machine. Raises Refused."""
    settings = load()
    return AppContext(
        settings,
        Screen(_make_tolerant(sys.stdout), _make_tolerant(sys.stderr)),
        TokenFile(settings.credentials),
        ReportFolder(settings.reports),
    )


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
