"""What an unknown CLI id means: it waits to be linked, it is linked at once, or it is nobody's."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ingest.service.people import People
from ingest.service.tokens import NewToken, Tokens
from shared.errors import Refused

SCOPES = ("submit", "submit:ranked", "profile", "read:own", "delete:own", "join")
LIFE_DAYS = 90
LENGTH_MIN, LENGTH_MAX = 16, 128


async def _never(_cli_id: str) -> bool:
    return False


@dataclass(frozen=True)
class Linking:
    """Decides about CLI ids; `autolink` is the participant whose every id is, "" for nobody's."""

    people: People
    tokens: Tokens
    autolink: str = ""
    waits: Callable[[str], Awaitable[bool]] = _never

    async def claim(self, cli_id: str) -> None:
        """Let an unknown id act for who it is. Errors: Refused `cli_id_not_linked`; Failed.

        An id that nobody gave out is left as it is: unknown.
        """
        if self.autolink and LENGTH_MIN <= len(cli_id) <= LENGTH_MAX:
            account, _ = await self.people.open(self.autolink, "cli", "")
            await self.link(account, cli_id)
        elif await self.waits(cli_id):
            what = (
                "this CLI id is not linked to a participant yet: run `warpboard login`, use "
                "`/account link` in Discord, or paste the id on the web page /link"
            )
            raise Refused("cli_id_not_linked", what)

    async def link(self, account: str, cli_id: str, scopes: Sequence[str] = SCOPES) -> None:
        """Let an id act for a participant. Errors: Refused `cli_id_taken`; Failed."""
        at = self.tokens.decisions.clock()
        new = NewToken(
            "cli",
            f"popcorn-cli {at:%Y-%m-%d}",
            scopes,
            at + timedelta(days=LIFE_DAYS),
            secret=cli_id,
        )
        await self.tokens.issue(account, new, f"account:{account}")
