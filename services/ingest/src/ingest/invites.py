"""Invites: one code lets one participant join closed leaderboards."""

import secrets
from base64 import b32encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, NamedTuple, TypeAlias

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field

from ingest.access.feed import AccessFeed, hash_secret
from ingest.access.rules import Caller, Invite
from ingest.accounts.service import Accounts
from ingest.decisions import Decisions, http_append
from ingest.http.middleware import AttemptLimiter
from ingest.http.requests import (
    Authenticator,
    ReasonRequest,
    RequestModel,
    Slug,
    SlugInPath,
    Text,
    client_address,
)
from ingest.ports import AccountStore
from shared import subjects
from shared.api import leaderboards as api
from shared.clock import new_id
from shared.errors import Refused
from shared.event_log import Decider
from shared.events import Fact, InviteIssued, InviteRedeemed, InviteRevoked
from shared.http import DocumentedRoute
from shared.json_types import Instant, JsonInt

INVITES_MAX = 10_000
BATCH_MAX = 500
CODE_BYTES = 16
CODE_LENGTH_MAX = 128

LEADERBOARDS_MAX = 100
Code = Annotated[str, Field(min_length=1, max_length=CODE_LENGTH_MAX)]
CodeInPath = Annotated[str, Path(min_length=1, max_length=CODE_LENGTH_MAX)]


@dataclass(frozen=True)
class InviteState:
    """The state of an invite; `account` is the participant who redeemed it."""

    issued: InviteIssued | None = None
    account: str | None = None
    is_revoked: bool = False


class InviteCommand(NamedTuple):
    """Redeem or revoke an invite at this time."""

    event: InviteRedeemed | InviteRevoked
    at: datetime


def decide_invite(command: InviteCommand, state: InviteState) -> Sequence[Fact]:
    """Return the event, or nothing if it changes nothing. Raises `Refused` with the reason."""
    event, at = command
    if state.issued is None or state.is_revoked:
        raise invalid_invite()
    if isinstance(event, InviteRevoked):
        return (event,)
    if state.account == event.account:
        return ()
    if state.account is not None:
        raise Refused("invite_claimed", "somebody else has already used this invite", "code")
    ends_at = state.issued.expires_at
    if ends_at is not None and at >= ends_at:
        raise Refused("invite_expired", f"this invite was good until {ends_at.isoformat()}", "code")
    return (event,)


def evolve_invite(state: InviteState, fact: Fact) -> InviteState:
    """Return the invite after one more event."""
    match fact:
        case InviteIssued():
            return replace(state, issued=fact)
        case InviteRedeemed():
            return replace(state, account=fact.account)
        case InviteRevoked():
            return replace(state, is_revoked=True)
    return state


invites = Decider[InviteCommand, InviteState, Fact](InviteState(), decide_invite, evolve_invite)


def invalid_invite() -> Refused:
    """Return the refusal for a participant who sends a code that does not exist."""
    message = "this is not a valid invite code: ask the person who gave it to you"
    return Refused("invalid_invite", message, "code")


class NewInvites(NamedTuple):
    """Invites to create."""

    problems: Sequence[str]
    how_many: int
    expires_at: datetime | None
    reason: str = ""


def new_code() -> str:
    """Return a new code: 128 random bits as 26 letters and digits.

    A code never contains "-", which a command line would take for an option.

    >>> len(new_code())
    26
    """
    return b32encode(secrets.token_bytes(CODE_BYTES)).decode().rstrip("=").lower()


@dataclass(frozen=True)
class Invites:
    """Creates, lists, revokes and redeems invites.

    `account_attempts` limits wrong codes per account, `address_attempts` per address, which many
    people may share.
    """

    decisions: Decisions
    feed: AccessFeed
    rows: AccountStore
    people: Accounts
    account_attempts: AttemptLimiter
    address_attempts: AttemptLimiter

    async def issue(self, request: NewInvites, actor: str) -> list[str]:
        """Create invites and return their codes. Raises `Refused` and `Failed`."""
        access = self.feed.now()
        for slug in request.problems:
            access.leaderboard(slug)
        codes = {new_id(): new_code() for _ in range(request.how_many)}
        await self.rows.add_invites(codes)
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
        await self.feed.reach(seq)
        return list(codes.values())

    async def list_invites(self, slug: str) -> list[api.Invite]:
        """Return the invites to a leaderboard, oldest first. Raises `Refused` and `Failed`."""
        access = self.feed.now()
        access.leaderboard(slug)
        invites = access.invites_to(slug)[:INVITES_MAX]
        codes = await self.rows.codes([invite.id for invite in invites])
        return [
            api.Invite(
                code=codes.get(invite.id, ""),
                participant_id=invite.account,
                participant=await self.people.name_of(invite.account) if invite.account else None,
                claimed_at=invite.claimed_at,
                created_at=invite.issued_at,
                expires_at=invite.expires_at,
            )
            for invite in invites
        ]

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
        invite = self.feed.now().invite(hash_secret(code))
        if invite is None:
            self.account_attempts.take(account)
            self.address_attempts.take(address)
            raise invalid_invite()
        redeemed = InviteRedeemed(account=account)
        await self._decide(invite.id, redeemed, f"account:{account}")
        return invite.problems

    def by_code(self, code: str) -> Invite:
        """Return an invite. Raises `Refused` (`unknown_invite`) and `Failed`."""
        invite = self.feed.now().invite(hash_secret(code))
        if invite is None:
            message = "this invite does not exist or is revoked"
            raise Refused("unknown_invite", message, "code")
        return invite

    async def _decide(self, invite: str, event: InviteRedeemed | InviteRevoked, actor: str) -> None:
        command = InviteCommand(event, self.decisions.clock())
        await self.decisions.make(subjects.invite(invite), invites, command, actor)


class InviteRequest(RequestModel):
    """Invites to create: the leaderboards, how many, and until when they are valid."""

    leaderboards: Annotated[list[Slug], Field(min_length=1, max_length=LEADERBOARDS_MAX)]
    count: Annotated[JsonInt, Field(ge=1, le=INVITES_MAX)] = 1
    expires_at: Instant | None = None
    reason: Text


class JoinRequest(RequestModel):
    """The code of an invite."""

    code: Code


def invites_router(invites: Invites, auth: Authenticator) -> APIRouter:
    """The routes; authors and operators create invites, participants join with them."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    Author: TypeAlias = Annotated[Caller, Depends(auth.author_or_operator())]

    @router.post("/admin/invites", status_code=201)
    async def issue(body: InviteRequest, caller: Author) -> api.InviteCodes:
        """Create invite codes; each lets one participant join closed leaderboards."""
        slugs = list(dict.fromkeys(slug.lower() for slug in body.leaderboards))
        for slug in slugs:
            auth.check_manages(caller, slug)
        ends_at = body.expires_at.astimezone(UTC) if body.expires_at else None
        new_invites = NewInvites(slugs, body.count, ends_at, body.reason)
        codes = await invites.issue(new_invites, caller.actor)
        return api.InviteCodes(leaderboards=slugs, codes=codes)

    @router.get(
        "/admin/leaderboards/{slug}/invites", dependencies=[Depends(auth.leaderboard_manager())]
    )
    async def listed(slug: SlugInPath) -> api.Invites:
        """The invites to a leaderboard that are not revoked, and who used them."""
        return api.Invites(items=await invites.list_invites(slug.lower()))

    @router.delete("/admin/invites/{code}")
    async def revoke(code: CodeInPath, body: ReasonRequest, caller: Author) -> api.RevokedInvite:
        """Revoke an invite; a participant who joined with it is no longer a member."""
        for slug in invites.by_code(code).problems:
            auth.check_manages(caller, slug)
        was_claimed = await invites.revoke(code, body.reason, caller.actor)
        return api.RevokedInvite(code=code, was_claimed=was_claimed)

    @router.post("/user/join")
    async def join(
        body: JoinRequest,
        request: Request,
        caller: Annotated[Caller, Depends(auth.participant("join"))],
    ) -> api.LeaderboardMembership:
        """Join closed leaderboards with an invite; repeating changes nothing."""
        # Everybody on Discord comes from the address of the bot, so they are counted by account.
        where = caller.id if caller.kind == "discord" else client_address(request)
        slugs = await invites.join(caller.id, body.code, where)
        return api.LeaderboardMembership(status="ok", leaderboards=list(slugs))

    return router
