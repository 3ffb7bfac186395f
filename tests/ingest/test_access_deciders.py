"""What is decided about accounts, invites and leaderboards: each refusal is one clear error."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given as every
from hypothesis import strategies as st

from ingest.identity.accounts import rules as accounts
from ingest.identity.accounts.rules import AccountCommand
from ingest.identity.invites.rules import INVITE_DECIDER, InviteCommand
from ingest.moderation import rules as moderation
from ingest.problems import commands
from ingest.problems import rules as problems
from shared.errors import Refused
from shared.events import (
    AccountOpened,
    Fact,
    IdentityLinked,
    IdentityUnlinked,
    InviteIssued,
    InviteRedeemed,
    InviteRevoked,
    LeaderboardArchived,
    LeaderboardChanged,
    ProblemPublished,
    RoleGranted,
    RoleRevoked,
    SubmissionHeld,
    SubmissionWithdrawn,
    TokenIssued,
    TokenRevoked,
)
from tests.support.examples import example_event
from tests.support.scenarios import given

R = "because"
T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATER = T0 + timedelta(hours=1)
CREATOR = RoleGranted(role="creator", reason=R)
LINKED = IdentityLinked(identity="i1", provider="github")


def token(name: str = "t1", *scopes: str, ends: datetime | None = LATER) -> TokenIssued:
    """A token that is issued."""
    return TokenIssued(
        token=name,
        token_hash=f"hash-{name}",
        kind="api",
        scopes=list(scopes or ("submit",)),
        expires_at=ends,
    )


@pytest.mark.parametrize(
    ("history", "command", "code"),
    [
        ([], AccountCommand(token("t1", "fly"), T0), "invalid_request"),
        ([], AccountCommand(token("t1", "author"), T0), "scope_missing"),
        ([], AccountCommand(token("t1", "admin"), T0), "scope_missing"),
        ([CREATOR], AccountCommand(token("t1", "admin:problems"), T0), "scope_missing"),
        ([], AccountCommand(token("t1", ends=T0), T0), "invalid_request"),
        (
            [token(f"t{place}") for place in range(accounts.TOKENS_MAX)],
            AccountCommand(token("one more"), T0),
            "wrong_state",
        ),
        ([], AccountCommand(TokenRevoked(token="t1", reason=R), T0), "unknown_token"),
        (
            [token(), TokenRevoked(token="t1", reason=R)],
            AccountCommand(TokenRevoked(token="t1", reason=R), T0),
            "unknown_token",
        ),
        ([], AccountCommand(RoleGranted(role="king", reason=R), T0), "invalid_request"),
        ([], AccountCommand(RoleGranted(role="participant", reason=R), T0), "invalid_request"),
        ([], AccountCommand(RoleRevoked(role="creator", reason=R), T0), "wrong_state"),
        ([], AccountCommand(IdentityUnlinked(identity="i1", reason=R), T0), "unknown_identity"),
        (
            [LINKED, IdentityUnlinked(identity="i1", reason=R)],
            AccountCommand(IdentityUnlinked(identity="i1", reason=R), T0),
            "unknown_identity",
        ),
    ],
)
def test_invalid_account_commands_are_refused(
    history: Sequence[Fact], command: AccountCommand, code: str
) -> None:
    given(accounts.ACCOUNT_DECIDER, *history).when(command).then_refused(code)


@pytest.mark.parametrize(
    ("history", "command", "expected"),
    [
        ([], AccountCommand(AccountOpened(via="web"), T0), [AccountOpened(via="web")]),
        ([AccountOpened(via="web")], AccountCommand(AccountOpened(via="discord"), T0), []),
        ([], AccountCommand(LINKED, T0), [LINKED]),
        ([LINKED], AccountCommand(LINKED, T0), []),
        ([], AccountCommand(RoleGranted(role="creator", reason=R), T0), [CREATOR]),
        ([CREATOR], AccountCommand(RoleGranted(role="creator", reason=R), T0), []),
        (
            [CREATOR],
            AccountCommand(RoleRevoked(role="creator", reason=R), T0),
            [RoleRevoked(role="creator", reason=R)],
        ),
        ([CREATOR], AccountCommand(token("t1", "author"), T0), [token("t1", "author")]),
        (
            [token()],
            AccountCommand(TokenRevoked(token="t1", reason=R), T0),
            [TokenRevoked(token="t1", reason=R)],
        ),
    ],
)
def test_valid_account_commands_are_recorded_once(
    history: Sequence[Fact], command: AccountCommand, expected: Sequence[Fact]
) -> None:
    given(accounts.ACCOUNT_DECIDER, *history).when(command).then(*expected)


def test_expired_tokens_do_not_count() -> None:
    old = [token(f"t{place}", ends=T0) for place in range(accounts.TOKENS_MAX)]
    new = token("one more", ends=LATER + timedelta(days=1))
    given(accounts.ACCOUNT_DECIDER, *old).when(AccountCommand(new, LATER)).then(new)


ISSUED = InviteIssued(code_hash="c", problems=["copy"], expires_at=LATER)
REDEEMED = InviteRedeemed(account="ada")
REVOKED = InviteRevoked(reason=R)


@pytest.mark.parametrize(
    ("history", "command", "code"),
    [
        ([], InviteCommand(InviteRedeemed(account="ada"), T0), "invalid_invite"),
        ([ISSUED, REVOKED], InviteCommand(InviteRedeemed(account="ada"), T0), "invalid_invite"),
        ([ISSUED, REDEEMED], InviteCommand(InviteRedeemed(account="grace"), T0), "invite_claimed"),
        ([ISSUED], InviteCommand(InviteRedeemed(account="ada"), LATER), "invite_expired"),
        ([ISSUED, REVOKED], InviteCommand(REVOKED, T0), "invalid_invite"),
    ],
)
def test_an_invalid_invite_is_refused(
    history: Sequence[Fact], command: InviteCommand, code: str
) -> None:
    given(INVITE_DECIDER, *history).when(command).then_refused(code)


def test_an_invite_belongs_to_one_participant() -> None:
    given(INVITE_DECIDER, ISSUED).when(InviteCommand(InviteRedeemed(account="ada"), T0)).then(
        REDEEMED
    )
    given(INVITE_DECIDER, ISSUED, REDEEMED).when(
        InviteCommand(InviteRedeemed(account="ada"), LATER)
    ).then()
    given(INVITE_DECIDER, ISSUED, REDEEMED).when(InviteCommand(REVOKED, T0)).then(REVOKED)


FIRST = example_event(ProblemPublished)
CLOSED = LeaderboardChanged(visibility="closed", reason=R)
DATED = LeaderboardChanged(visibility=None, has_deadline=True, deadline_at=LATER, reason=R)
FREE = LeaderboardChanged(visibility=None, has_deadline=False, reason=R)


@pytest.mark.parametrize(
    ("history", "command", "expected"),
    [
        ([FIRST], commands.Change(R, "closed"), [CLOSED]),
        ([FIRST, CLOSED], commands.Change(R, "closed"), []),
        ([FIRST], commands.Change(R, "public"), []),
        ([FIRST], commands.Change(R, None, True, LATER), [DATED]),
        ([FIRST, DATED], commands.Change(R, None, True, LATER), []),
        ([FIRST, DATED], commands.Change(R, None, False), [FREE]),
        ([FIRST, DATED, CLOSED], commands.Change(R, None, True, LATER), []),
        ([FIRST], LeaderboardArchived(reason=R), [LeaderboardArchived(reason=R)]),
        ([FIRST, LeaderboardArchived(reason=R)], LeaderboardArchived(reason=R), []),
    ],
)
def test_a_leaderboard_is_changed_once(
    history: Sequence[Fact], command: commands.ProblemCommand, expected: Sequence[Fact]
) -> None:
    given(problems.PROBLEM_DECIDER, *history).when(command).then(*expected)


@every(st.lists(st.sampled_from([FIRST, CLOSED, DATED, FREE]), max_size=8))
def test_a_leaderboard_closes_at_its_last_deadline(history: list[Fact]) -> None:
    state = problems.PROBLEM_DECIDER.fold(history)
    dates = [
        fact
        for fact in history
        if isinstance(fact, LeaderboardChanged) and fact.has_deadline is not None
    ]
    is_open = not dates or not dates[-1].has_deadline
    problems.check_in_time("copy", state, T0)
    with nullcontext() if is_open else pytest.raises(Refused, match="deadline"):
        problems.check_in_time("copy", state, LATER)


def test_a_held_submission_is_withdrawn_after_review() -> None:
    held, gone = SubmissionHeld(rule="r", reason=R), SubmissionWithdrawn(reason=R)
    given(moderation.MODERATION_DECIDER, held).when(gone).then_refused("under_review")
    given(moderation.MODERATION_DECIDER).when(gone).then(gone)
    given(moderation.MODERATION_DECIDER, gone).when(gone).then()
