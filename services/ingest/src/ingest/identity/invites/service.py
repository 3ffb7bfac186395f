"""Invites: one code lets one participant join closed leaderboards."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ingest.decisions import Decisions, http_append
from ingest.http.attempts import AttemptLimiter
from ingest.identity.access.feed import AccessFeed
from ingest.identity.access.fold import Invite
from ingest.identity.caller import account_actor
from ingest.identity.invites.rules import INVITE_DECIDER, InviteCommand, invalid_invite
from ingest.identity.secrets import hash_secret, new_invite_code
from ingest.ports import AccountStore
from shared import subjects
from shared.api import leaderboards as api
from shared.clock import new_id
from shared.errors import Refused
from shared.events import InviteIssued, InviteRedeemed, InviteRevoked

INVITES_MAX = 10_000
BATCH_MAX = 500


class NewInvites(NamedTuple):
    """Invites to create."""

    problems: Sequence[str]
    how_many: int
    expires_at: datetime | None
    reason: str = ""


@dataclass(frozen=True)
class Invites:
    """Creates, lists, revokes and redeems invites.

    `account_attempts` limits wrong codes per account, `address_attempts` per address, which many
    people may share.
    """

    decisions: Decisions
    feed: AccessFeed
    store: AccountStore
    account_attempts: AttemptLimiter
    address_attempts: AttemptLimiter

    async def issue(self, request: NewInvites, actor: str) -> list[str]:
        """Create invites and return their codes. Raises `Refused` and `Failed`."""
        access = self.feed.rights()
        for slug in request.problems:
            access.leaderboard(slug)
        codes = {new_id(): new_invite_code() for _ in range(request.how_many)}
        await self.store.add_invites(codes)
        appends = [
            http_append(
                subjects.invite(invite),
                InviteIssued(
                    code_hash=hash_secret(code),
                    problems=list(request.problems),
                    expires_at=request.expires_at,
                    reason=request.reason,
                ),
                0,
                invite,
            )
            for invite, code in codes.items()
        ]
        seq = None
        for start in range(0, len(appends), BATCH_MAX):
            seq = await self.decisions.append(actor, *appends[start : start + BATCH_MAX])
        await self.feed.wait_until_folded(seq)
        return list(codes.values())

    async def list_invites(self, slug: str) -> list[api.Invite]:
        """Return the invites to a leaderboard, oldest first. Raises `Refused` and `Failed`."""
        access = self.feed.rights()
        access.leaderboard(slug)
        invites = access.invites_to(slug)[:INVITES_MAX]
        codes = await self.store.codes([invite.id for invite in invites])
        return [
            api.Invite(
                code=codes.get(invite.id, ""),
                participant_id=invite.account,
                participant=await self._name_of(invite.account),
                claimed_at=invite.claimed_at,
                created_at=invite.issued_at,
                expires_at=invite.expires_at,
            )
            for invite in invites
        ]

    async def _name_of(self, account: str | None) -> str | None:
        """Return the name of a participant; the account itself once the name is erased."""
        return None if account is None else await self.store.name_of(account) or account

    async def revoke(self, code: str, reason: str, actor: str) -> bool:
        """Revoke an invite; return whether somebody had used it.

        Raises `Refused` (`unknown_invite`) and `Failed`.
        """
        invite = self.by_code(code)
        await self._decide(invite.id, InviteRevoked(reason=reason), actor)
        return invite.account is not None

    async def join(self, account: str, code: str, address: str) -> Sequence[str]:
        """Redeem an invite and return its leaderboards. Raises `Refused` and `Failed`.

        Wrong codes count against the account and against the address (`rate_limited`).
        """
        self.account_attempts.check(account)
        self.address_attempts.check(address)
        invite = self.feed.rights().invite(hash_secret(code))
        if invite is None:
            self.account_attempts.take(account)
            self.address_attempts.take(address)
            raise invalid_invite()
        redeemed = InviteRedeemed(account=account)
        await self._decide(invite.id, redeemed, account_actor(account))
        return invite.problems

    def by_code(self, code: str) -> Invite:
        """Return an invite. Raises `Refused` (`unknown_invite`) and `Failed`."""
        invite = self.feed.rights().invite(hash_secret(code))
        if invite is None:
            message = "this invite does not exist or is revoked"
            raise Refused("unknown_invite", message, "code")
        return invite

    async def _decide(self, invite: str, event: InviteRedeemed | InviteRevoked, actor: str) -> None:
        command = InviteCommand(event, self.decisions.clock())
        await self.decisions.make(subjects.invite(invite), INVITE_DECIDER, command, actor)
