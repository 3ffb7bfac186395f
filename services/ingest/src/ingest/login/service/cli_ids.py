"""CLI ids: given out to anybody, worth something once a participant links theirs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ingest.domain.access import Token
from ingest.login.domain import CLI_ID, CliLogin, check_cli, ends_at, network_of
from ingest.login.ports import CliLogins
from ingest.login.service.secret import drawn
from ingest.service.gate import digest
from ingest.service.linking import SCOPES, Linking
from ingest.service.tokens import Tokens
from shared.errors import Failed


@dataclass(frozen=True)
class Waiting:
    """Which CLI ids wait for somebody to link them."""

    logins: CliLogins
    clock: Callable[[], datetime]

    async def __call__(self, cli_id: str) -> bool:
        """Whether this one was given out, and is nobody's yet. Errors: Failed."""
        found = await self.logins.find(digest(cli_id)) if CLI_ID.match(cli_id) else None
        return found is not None and found.account is None and self.clock() < found.expires_at


@dataclass(frozen=True)
class CliIds:
    """What is done with CLI ids."""

    logins: CliLogins
    linking: Linking
    tokens: Tokens
    clock: Callable[[], datetime]

    async def give(self, provider: str, address: str | None) -> str:
        """A new CLI id, which waits to be linked. Errors: Failed."""
        cli_id, at = drawn(), self.clock()
        login = CliLogin(provider, network_of(address), at, ends_at(at))
        await self.logins.add(digest(cli_id), login)
        return cli_id

    async def preview(self, cli_id: str, account: str) -> CliLogin:
        """Who asked for a CLI id, and whence. Errors: Refused; Failed."""
        found = await self.logins.find(digest(cli_id)) if CLI_ID.match(cli_id) else None
        is_live = self.tokens.known(cli_id) is not None
        return check_cli(found, account, is_live, self.clock())

    async def link(self, cli_id: str, account: str, scopes: Sequence[str] = SCOPES) -> Token:
        """Let a CLI id act for a participant; a second time changes nothing.

        Errors: Refused; Failed.
        """
        await self.preview(cli_id, account)
        if not await self.logins.claim(digest(cli_id), account, self.clock()):
            # Somebody else was faster, or the time ran out in between: say which.
            await self.preview(cli_id, account)
        if self.tokens.known(cli_id) is None:
            await self.linking.link(account, cli_id, scopes)
        token = self.tokens.known(cli_id)
        if token is None or token.account != account:
            raise Failed("the link is not known everywhere yet: try again")
        return token
