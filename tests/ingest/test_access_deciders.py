"""What is decided about accounts, invites and leaderboards: each refusal is one clear error."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given as every
from hypothesis import strategies as st

from ingest import invites
from ingest.accounts import rules as accounts
from ingest.moderation import rules as moderation
from ingest.problems import rules as problems
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
        ([], accounts.Issue(token("t1", "fly"), T0), "invalid_request"),
        ([], accounts.Issue(token("t1", "author"), T0), "scope_missing"),
        ([], accounts.Issue(token("t1", "admin"), T0), "scope_missing"),
        ([CREATOR], accounts.Issue(token("t1", "admin:problems"), T0), "scope_missing"),
        ([], accounts.Issue(token("t1", ends=T0), T0), "invalid_request"),
        (
            [token(f"t{place}") for place in range(accounts.TOKENS_MAX)],
            accounts.Issue(token("one more"), T0),
            "wrong_state",
        ),
        ([], accounts.Revoke("t1", R), "unknown_token"),
        ([token(), TokenRevoked(token="t1", reason=R)], accounts.Revoke("t1", R), "unknown_token"),
        ([], accounts.Grant("king", R), "invalid_request"),
        ([], accounts.Grant("participant", R), "invalid_request"),
        ([], accounts.TakeRole("creator", R), "wrong_state"),
        ([], accounts.Unlink("i1", R), "unknown_identity"),
        (
            [LINKED, IdentityUnlinked(identity="i1", reason=R)],
            accounts.Unlink("i1", R),
            "unknown_identity",
        ),
    ],
)
def test_invalid_account_commands_are_refused(
    history: Sequence[Fact], command: accounts.AccountCommand, code: str
) -> None:
    given(accounts.accounts, *history).when(command).then_refused(code)


@pytest.mark.parametrize(
    ("history", "command", "expected"),
    [
        ([], accounts.Open("web"), [AccountOpened(via="web")]),
        ([AccountOpened(via="web")], accounts.Open("discord"), []),
        ([], accounts.Link("i1", "github"), [LINKED]),
        ([LINKED], accounts.Link("i1", "github"), []),
        ([], accounts.Grant("creator", R), [CREATOR]),
        ([CREATOR], accounts.Grant("creator", R), []),
        ([CREATOR], accounts.TakeRole("creator", R), [RoleRevoked(role="creator", reason=R)]),
        ([CREATOR], accounts.Issue(token("t1", "author"), T0), [token("t1", "author")]),
        ([token()], accounts.Revoke("t1", R), [TokenRevoked(token="t1", reason=R)]),
    ],
)
def test_valid_account_commands_are_recorded_once(
    history: Sequence[Fact], command: accounts.AccountCommand, expected: Sequence[Fact]
) -> None:
    given(accounts.accounts, *history).when(command).then(*expected)


def test_expired_tokens_do_not_count() -> None:
    old = [token(f"t{place}", ends=T0) for place in range(accounts.TOKENS_MAX)]
    new = token("one more", ends=LATER + timedelta(days=1))
    given(accounts.accounts, *old).when(accounts.Issue(new, LATER)).then(new)


ISSUED = InviteIssued(code_hash="c", problems=["copy"], expires_at=LATER)
REDEEMED = InviteRedeemed(account="ada")
REVOKED = InviteRevoked(reason=R)


@pytest.mark.parametrize(
    ("history", "command", "code"),
    [
        ([], invites.Redeem("ada", T0), "invalid_invite"),
        ([ISSUED, REVOKED], invites.Redeem("ada", T0), "invalid_invite"),
        ([ISSUED, REDEEMED], invites.Redeem("grace", T0), "invite_claimed"),
        ([ISSUED], invites.Redeem("ada", LATER), "invite_expired"),
        ([ISSUED, REVOKED], invites.Revoke(R), "invalid_invite"),
    ],
)
def test_an_invalid_invite_is_refused(
    history: Sequence[Fact], command: invites.Redeem | invites.Revoke, code: str
) -> None:
    given(invites.invites, *history).when(command).then_refused(code)


def test_an_invite_belongs_to_one_participant() -> None:
    given(invites.invites, ISSUED).when(invites.Redeem("ada", T0)).then(REDEEMED)
    given(invites.invites, ISSUED, REDEEMED).when(invites.Redeem("ada", LATER)).then()
    given(invites.invites, ISSUED, REDEEMED).when(invites.Revoke(R)).then(REVOKED)


FIRST = example_event(ProblemPublished)
CLOSED = LeaderboardChanged(visibility="closed", reason=R)
DATED = LeaderboardChanged(visibility=None, has_deadline=True, deadline_at=LATER, reason=R)
FREE = LeaderboardChanged(visibility=None, has_deadline=False, reason=R)


@pytest.mark.parametrize(
    ("history", "command", "expected"),
    [
        ([FIRST], problems.Change(R, "closed"), [CLOSED]),
        ([FIRST, CLOSED], problems.Change(R, "closed"), []),
        ([FIRST], problems.Change(R, "public"), []),
        ([FIRST], problems.Change(R, None, True, LATER), [DATED]),
        ([FIRST, DATED], problems.Change(R, None, True, LATER), []),
        ([FIRST, DATED], problems.Change(R, None, False), [FREE]),
        ([FIRST, DATED, CLOSED], problems.Change(R, None, True, LATER), []),
        ([FIRST], problems.Archive(R), [LeaderboardArchived(reason=R)]),
        ([FIRST, LeaderboardArchived(reason=R)], problems.Archive(R), []),
    ],
)
def test_a_leaderboard_is_changed_once(
    history: Sequence[Fact], command: problems.ProblemCommand, expected: Sequence[Fact]
) -> None:
    given(problems.problems, *history).when(command).then(*expected)


@every(st.lists(st.sampled_from([FIRST, CLOSED, DATED, FREE]), max_size=8))
def test_a_leaderboard_closes_at_its_last_deadline(history: list[Fact]) -> None:
    state = problems.problems.fold(history)
    dates = [
        fact
        for fact in history
        if isinstance(fact, LeaderboardChanged) and fact.has_deadline is not None
    ]
    is_open = not dates or not dates[-1].has_deadline
    assert problems.deadline_refusal("copy", state, T0) is None
    assert (problems.deadline_refusal("copy", state, LATER) is None) == is_open


def test_a_held_submission_is_withdrawn_after_review() -> None:
    held, gone = SubmissionHeld(rule="r", reason=R), SubmissionWithdrawn(reason=R)
    given(moderation.moderation, held).when(moderation.Withdraw(R)).then_refused("under_review")
    given(moderation.moderation).when(moderation.Withdraw(R)).then(gone)
    given(moderation.moderation, gone).when(moderation.Withdraw(R)).then()
