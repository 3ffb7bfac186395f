"""Invites: made, listed, revoked, and redeemed by who joins."""

import secrets
from base64 import b32encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ingest.domain import invites
from ingest.domain.access import Invite
from ingest.service.decisions import By, Decisions, Made
from ingest.service.gate import AccessFeed, digest
from ingest.service.people import People
from ingest.service.ports import InviteRows
from ingest.service.tries import Tries
from shared import subjects
from shared.clock import new_id
from shared.event_log import New
from shared.events import InviteIssued
from shared.wire import Stamp, seal

INVITES_MAX = 10_000
BATCH_MAX = 500
CODE_BYTES = 16
CODE_LENGTH_MAX = 128


class Wanted(NamedTuple):
    """Invites that are to be made."""

    problems: Sequence[str]
    how_many: int
    expires_at: datetime | None
    reason: str = ""


class Invited(NamedTuple):
    """An invite as who made it sees it; `account` and `name` are who used it."""

    code: str
    account: str | None
    name: str | None
    claimed_at: datetime | None
    issued_at: datetime
    expires_at: datetime | None


def fresh() -> str:
    """A new code: 128 random bits as 26 letters and digits, for a command line takes - for more.

    >>> len(fresh())
    26
    """
    return b32encode(secrets.token_bytes(CODE_BYTES)).decode().rstrip("=").lower()


@dataclass(frozen=True)
class Invites:
    """The commands about invites.

    `wrong` limits how many codes somebody may guess, and `wrong_there` how many may be guessed from
    one address, which many may share.
    """

    decisions: Decisions
    feed: AccessFeed
    rows: InviteRows
    people: People
    wrong: Tries
    wrong_there: Tries

    async def issue(self, wanted: Wanted, actor: str) -> list[str]:
        """Codes that were not there before. Errors: Refused; Failed."""
        access = self.feed.now()
        for slug in wanted.problems:
            access.leaderboard(slug)
        codes = {new_id(): fresh() for _ in range(wanted.how_many)}
        await self.rows.add_invites(codes)
        made, seq = list(codes.items()), None
        for start in range(0, len(made), BATCH_MAX):
            news = [self._new(*one, wanted, actor) for one in made[start : start + BATCH_MAX]]
            log = self.decisions.log
            seq = await (log.append(news[0]) if len(news) == 1 else log.append_all(news))
        await self.feed.reach(seq)
        return list(codes.values())

    async def listed(self, slug: str) -> list[Invited]:
        """The invites to a leaderboard, oldest first. Errors: Refused; Failed."""
        access = self.feed.now()
        access.leaderboard(slug)
        found = access.invites_to(slug)[:INVITES_MAX]
        codes = await self.rows.codes([one.id for one in found])
        return [await self._seen(one, codes.get(one.id, "")) for one in found]

    async def revoke(self, code: str, reason: str, actor: str) -> bool:
        """Let a code make nobody a member; whether somebody was one by it.

        Errors: Refused `unknown_invite`; Failed.
        """
        found = self.by_code(code)
        await self._decide(found.id, invites.Revoke(reason), actor)
        return found.account is not None

    async def join(self, account: str, code: str, address: str) -> Sequence[str]:
        """Become a member; the leaderboards. Errors: Refused, `rate_limited` too; Failed.

        Wrong codes are counted for who tries and for where they try.
        """
        self.wrong.check(account)
        self.wrong_there.check(address)
        found = self.feed.now().invite(digest(code))
        if found is None:
            self.wrong.take(account)
            self.wrong_there.take(address)
            raise invites.invalid()
        command = invites.Redeem(account, self.decisions.clock())
        await self._decide(found.id, command, f"account:{account}")
        return found.problems

    def by_code(self, code: str) -> Invite:
        """An invite. Errors: Refused `unknown_invite`; Failed."""
        found = self.feed.now().invite(digest(code))
        if found is None:
            raise invites.unknown()
        return found

    async def _decide(
        self, invite: str, command: invites.Redeem | invites.Revoke, actor: str
    ) -> Made:
        agg, by = subjects.invite(invite), By(actor, invite)
        made = await self.decisions.make(agg, invites.invites, command, by)
        await self.feed.reach(made.seq)
        return made

    def _new(self, invite: str, code: str, wanted: Wanted, actor: str) -> New:
        fact = InviteIssued(
            code_hash=digest(code),
            problems=list(wanted.problems),
            expires_at=wanted.expires_at,
            reason=wanted.reason,
        )
        stamp = Stamp(new_id(), self.decisions.clock(), actor, invite, "http")
        return New(seal(fact, subjects.invite(invite), stamp), 0)

    async def _seen(self, one: Invite, code: str) -> Invited:
        name = await self.people.name_of(one.account) if one.account else None
        return Invited(code, one.account, name, one.claimed_at, one.issued_at, one.expires_at)
