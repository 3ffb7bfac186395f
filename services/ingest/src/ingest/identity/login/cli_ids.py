"""CLI ids, which clients get and participants link to their accounts.

All methods may raise `Refused` and `Failed`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ingest.identity.access.fold import Token
from ingest.identity.accounts.service import Accounts, NewToken, Tokens
from ingest.identity.caller import Caller, account_actor
from ingest.identity.login.postgres import LoginStore
from ingest.identity.login.rules import CLI_ID, CliLogin, check_cli, coarse_network, pending_until
from ingest.identity.secrets import hash_secret, new_secret
from shared.clock import now
from shared.errors import Failed, Refused

CLI_SCOPES = ("submit", "submit:ranked", "profile", "read:own", "delete:own", "join")
CLI_LIFE_DAYS = 90
CLI_ID_LENGTH_MIN, CLI_ID_LENGTH_MAX = 16, 128


async def find_cli_login(store: LoginStore, cli_id: str) -> CliLogin | None:
    """Return who asked for a CLI id; None if it was not issued here. Raises `Failed`."""
    if not CLI_ID.match(cli_id):
        return None
    return await store.find(CliLogin, "cli_login_of", cli=hash_secret(cli_id))


def pending_cli_ids(
    store: LoginStore, clock: Callable[[], datetime] = now
) -> Callable[[str], Awaitable[bool]]:
    """Return the check for CLI ids that were issued and wait to be linked."""

    async def is_pending(cli_id: str) -> bool:
        login = await find_cli_login(store, cli_id)
        return login is not None and login.account is None and clock() < login.expires_at

    return is_pending


@dataclass(frozen=True)
class CliIdLinking:
    """Links CLI ids; `autolink` is the participant who gets every id, "" for none."""

    people: Accounts
    tokens: Tokens
    autolink: str = ""
    is_pending: Callable[[str], Awaitable[bool]] | None = None

    async def claim(self, cli_id: str) -> None:
        """Link an unknown id if `autolink` is set, else refuse one that waits to be linked.

        Raises `Refused` (`cli_id_not_linked`) and `Failed`. An id that was never issued stays
        unknown.
        """
        if self.autolink and CLI_ID_LENGTH_MIN <= len(cli_id) <= CLI_ID_LENGTH_MAX:
            account, _ = await self.people.open(self.autolink, "cli", "")
            await self.link(account, cli_id)
        elif self.is_pending is not None and await self.is_pending(cli_id):
            message = (
                "this CLI id is not linked to a participant yet: run `warpboard login`, use "
                "`/account link` in Discord, or paste the id on the web page /link"
            )
            raise Refused("cli_id_not_linked", message)

    async def link(self, account: str, cli_id: str, scopes: Sequence[str] = CLI_SCOPES) -> None:
        """Let an id act for a participant. Raises `Refused` (`cli_id_taken`) and `Failed`."""
        at = self.tokens.clock()
        ends_at, name = at + timedelta(days=CLI_LIFE_DAYS), f"popcorn-cli {at:%Y-%m-%d}"
        new = NewToken("cli", name, scopes, ends_at, secret=cli_id)
        await self.tokens.issue(account, new, account_actor(account))


@dataclass(frozen=True)
class CliIds:
    """Issues and links CLI ids."""

    store: LoginStore
    linking: CliIdLinking

    async def issue(self, provider: str, address: str | None) -> str:
        """Issue a CLI id that waits to be linked."""
        cli_id, at = new_secret(), self.linking.tokens.clock()
        login = CliLogin(provider, coarse_network(address), at, pending_until(at))
        await self.store.execute("add_cli_login", cli=hash_secret(cli_id), **vars(login))
        return cli_id

    async def preview(self, cli_id: str, account: str) -> CliLogin:
        """Return who asked for a CLI id and from where."""
        login = await find_cli_login(self.store, cli_id)
        tokens = self.linking.tokens
        return check_cli(login, account, tokens.feed.find_token(cli_id) is not None, tokens.clock())

    async def link_for(self, cli_id: str, caller: Caller) -> Token:
        """Link a CLI id to the caller, with no scope that the caller lacks."""
        scopes = [scope for scope in CLI_SCOPES if caller.may(scope)]
        if not scopes:
            message = (
                f"your token has none of the scopes that a client needs: {', '.join(CLI_SCOPES)}"
            )
            raise Refused("scope_missing", message, "cli_id")
        return await self.link(cli_id, caller.id, scopes)

    async def link(self, cli_id: str, account: str, scopes: Sequence[str] = CLI_SCOPES) -> Token:
        """Link a CLI id to a participant; repeating changes nothing."""
        tokens = self.linking.tokens
        await self.preview(cli_id, account)
        values = {"cli": hash_secret(cli_id), "account": account, "at": tokens.clock()}
        if await self.store.execute("claim_cli_login", **values) == 0:
            # Somebody else was faster, or it expired meanwhile: this raises the right refusal.
            await self.preview(cli_id, account)
        if tokens.feed.find_token(cli_id) is None:
            await self.linking.link(account, cli_id, scopes)
        token = tokens.feed.find_token(cli_id)
        if token is None or tokens.feed.rights().account_of(token.account) != account:
            raise Failed("the link has not taken effect yet: try again")
        return token
