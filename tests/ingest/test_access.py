"""Who may do what, as the fold tells it: what is revoked, expired or banned never passes."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from ingest.domain.access import Access, evolve
from ingest.domain.callers import ANONYMOUS, Caller, allowed, check_scope, effective
from shared import events, subjects
from shared.errors import Refused
from shared.event_log import Recorded
from shared.events import SCOPES, Blob, Fact
from shared.wire import Stamp, seal

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATER = T0 + timedelta(days=1)
WHO = ("ada", "grace")
BLOB = Blob(digest="d", bytes=1)
PUBLISHED = events.ProblemPublished(
    number=1,
    digest="d",
    title="Copy",
    manifest=BLOB,
    files={},
    gpus=["CPU"],
    cases_count={},
    ranking_by="geom",
    budgets_s={},
    source_bytes_max=1,
)


def told(*said: tuple[str, Fact], actor: str = "account:ada") -> list[Recorded]:
    """A log of facts about aggregates."""
    return [
        Recorded(seq, seal(fact, agg, Stamp(f"e{seq}", T0, actor, "c", "t")))
        for seq, (agg, fact) in enumerate(said, 1)
    ]


def folded(log: Sequence[Recorded], access: Access | None = None) -> Access:
    """What a log means."""
    access = access or Access()
    for event in log:
        evolve(access, event)
    return access


def issued(token: str, *scopes: str, ends: datetime | None = None, secret: str = "") -> Fact:
    """A token, whose hash is its name unless another secret is given."""
    return events.TokenIssued(
        token=token,
        token_hash=secret or f"hash-{token}",
        kind="api",
        scopes=list(scopes or ("submit",)),
        expires_at=ends,
    )


def revoked(token: str) -> Fact:
    return events.TokenRevoked(token=token, reason="r")


ADA, GRACE = subjects.account("ada"), subjects.account("grace")
ID = some.sampled_from(["t1", "t2", "t3"])
WHERE = some.sampled_from([ADA, GRACE])
FACT = some.one_of(
    some.builds(
        issued,
        ID,
        some.sampled_from(["submit", "admin", "author"]),
        ends=some.sampled_from([None, T0, LATER]),
        secret=some.sampled_from(["", "same"]),
    ),
    some.builds(revoked, ID),
    some.builds(
        events.AccountBanned, reason=some.just("r"), until_at=some.sampled_from([None, T0, LATER])
    ),
    some.builds(events.AccountUnbanned, reason=some.just("r")),
    some.builds(
        events.RoleGranted, role=some.sampled_from(["creator", "admin"]), reason=some.just("r")
    ),
    some.builds(
        events.RoleRevoked, role=some.sampled_from(["creator", "admin"]), reason=some.just("r")
    ),
)
LOGS = some.lists(some.tuples(WHERE, FACT), max_size=30)


def live(access: Access, at: datetime) -> list[Caller]:
    """Everybody who gets in by any token."""
    found = (access.token(digest, at) for digest in list(access.tokens))
    return [access.caller(token, at) for token in found if token is not None]


@given(LOGS)
def test_what_is_revoked_or_expired_never_passes(said: list[tuple[str, Fact]]) -> None:
    access = folded(told(*said))
    dead = {
        (subjects.last_token(agg), fact.token)
        for agg, fact in said
        if isinstance(fact, events.TokenRevoked)
    }
    for digest in list(access.tokens):
        token = access.token(digest, T0)
        if token is not None:
            assert token.expires_at is None or token.expires_at > T0
            assert (token.account, token.id) not in dead


@given(LOGS)
def test_who_is_banned_may_do_nothing_but_read_their_own(said: list[tuple[str, Fact]]) -> None:
    access = folded(told(*said))
    for caller in live(access, T0):
        assert caller.account is not None
        ban = access.bans.get(caller.account)
        if ban is not None and (ban.until_at is None or ban.until_at > T0):
            assert caller.scopes <= {"read:own"}
            assert not caller.is_staff
            assert not caller.boards
            with pytest.raises(Refused, match="banned"):
                check_scope(caller, "submit")


@given(LOGS)
def test_nobody_may_more_than_their_roles_allow(said: list[tuple[str, Fact]]) -> None:
    access = folded(told(*said))
    for caller in live(access, T0):
        assert caller.account is not None
        assert caller.scopes <= allowed(access.roles.get(caller.account, ()))


@given(LOGS, some.integers(0, 30))
def test_folding_again_changes_nothing(said: list[tuple[str, Fact]], again: int) -> None:
    log = told(*said)
    once, twice = folded(log), folded(log)
    assert folded(log[-again:], twice) == once


@given(LOGS)
def test_a_secret_is_one_accounts_at_a_time(said: list[tuple[str, Fact]]) -> None:
    access = folded(told(*said))
    held = [digest for of in access.hashes.values() for digest in of.values()]
    assert sorted(held) == sorted(access.tokens)


def test_a_second_owner_of_a_secret_gets_nothing() -> None:
    log = told((ADA, issued("t1", secret="s")), (GRACE, issued("t2", secret="s")))
    token = folded(log).token("s", T0)
    assert token is not None
    assert token.account == "ada"


def test_a_revoked_token_is_dead_whatever_comes_after() -> None:
    log = told((ADA, issued("t1")), (ADA, revoked("t1")), (ADA, issued("t1")))
    assert folded(log).token("hash-t1", T0) is None


def at(log: Sequence[Recorded], *hours: int) -> list[Recorded]:
    """A log whose events happened so many hours after its beginning."""
    times = (T0 + timedelta(hours=after) for after in hours)
    return [
        one._replace(envelope=replace(one.envelope, at=time))
        for one, time in zip(log, times, strict=True)
    ]


def test_what_expired_or_was_revoked_a_day_ago_is_forgotten() -> None:
    ends = T0 + timedelta(hours=1)
    access = folded(at(told((ADA, issued("t1", ends=ends)), (ADA, issued("t2"))), 0, 0))
    evolve(access, at(told((ADA, revoked("t2"))), 2)[0]._replace(seq=3))
    access.drop_ended(ends + timedelta(hours=23))
    assert (set(access.tokens), set(access.named)) == ({"hash-t1"}, {"t1", "t2"})
    access.drop_ended(ends + timedelta(hours=24))
    assert (set(access.tokens), set(access.named)) == (set(), {"t2"})
    access.drop_ended(ends + timedelta(hours=25))
    assert access == Access(seq=3, has_accounts=True)


def test_a_second_revocation_counts_alike_whether_the_first_was_forgotten_or_not() -> None:
    first, second = at(told((ADA, revoked("t1")), (ADA, revoked("t1"))), 0, 24)
    swept, whole = folded([first]), folded([first, second])
    swept.drop_ended(second.envelope.at)
    evolve(swept, second)
    assert swept == whole


HOURS = some.lists(some.integers(0, 20), min_size=30, max_size=30)


@given(LOGS, HOURS, some.lists(some.booleans(), min_size=30, max_size=30))
def test_when_it_is_forgotten_makes_no_difference(
    said: list[tuple[str, Fact]], pauses: list[int], sweeps: list[bool]
) -> None:
    said = said[:30]
    hours = list(accumulate(pauses[: len(said)]))
    log = at(told(*said), *hours)
    swept, whole = Access(), folded(log)
    for event, is_due in zip(log, sweeps, strict=False):
        evolve(swept, event)
        if is_due:
            swept.drop_ended(event.envelope.at)
    end = T0 + timedelta(hours=hours[-1] if hours else 0)
    assert {(one.account, one.token) for one in live(swept, end)} == {
        (one.account, one.token) for one in live(whole, end)
    }
    swept.drop_ended(end)
    whole.drop_ended(end)
    assert swept == whole


def test_an_event_that_lies_where_it_does_not_belong_means_nothing() -> None:
    log = told(
        ("run.a1.r1", issued("t1")), ("run.a1.ada", events.RoleGranted(role="admin", reason=""))
    )
    assert folded(log) == Access(seq=2)


def test_admin_implies_every_scope_of_operators() -> None:
    found = effective(["admin"], ["admin"])
    assert found == {scope for scope in SCOPES if scope.startswith("admin")}


def test_a_scope_without_its_role_is_worth_nothing() -> None:
    assert effective(["admin", "author"], []) == frozenset()


CLOSED = events.LeaderboardChanged(visibility="closed", reason="r")
INVITED = events.InviteIssued(code_hash="c", problems=["copy"], expires_at=None)
REDEEMED = events.InviteRedeemed(account="grace")
COPY, INVITE = subjects.problem("copy"), subjects.invite("i1")


def grace(access: Access) -> Caller:
    """The caller who is grace."""
    token = access.token("hash-t2", T0)
    assert token is not None
    return access.caller(token, T0)


def test_a_closed_leaderboard_is_its_members_and_its_owners() -> None:
    log = told((COPY, PUBLISHED), (COPY, CLOSED), (GRACE, issued("t2")), (ADA, issued("t1")))
    access = folded(log)
    with pytest.raises(Refused) as nobody:
        access.check_sees(ANONYMOUS, "copy")
    with pytest.raises(Refused) as stranger:
        access.check_sees(grace(access), "copy")
    assert (nobody.value.code, stranger.value.code) == ("missing_credential", "no_access")
    ada = access.token("hash-t1", T0)
    assert ada is not None
    access.check_sees(access.caller(ada, T0), "copy")
    with pytest.raises(Refused, match="no leaderboard"):
        access.check_sees(ANONYMOUS, "other")


def test_an_invite_makes_a_member_until_it_is_revoked() -> None:
    log = told(
        (COPY, PUBLISHED),
        (COPY, CLOSED),
        (GRACE, issued("t2")),
        (INVITE, INVITED),
        (INVITE, REDEEMED),
    )
    access = folded(log)
    access.check_sees(grace(access), "copy")
    over = Recorded(
        6, seal(events.InviteRevoked(reason="r"), INVITE, Stamp("e6", T0, "a", "c", "t"))
    )
    evolve(access, over)
    with pytest.raises(Refused):
        access.check_sees(grace(access), "copy")
    assert access.invite("c") is None


def test_a_visibility_that_is_not_known_is_closed() -> None:
    odd = events.LeaderboardChanged(visibility="friends", reason="r")
    access = folded(told((COPY, PUBLISHED), (COPY, odd)))
    with pytest.raises(Refused):
        access.check_sees(ANONYMOUS, "copy")


def test_a_leaderboard_is_run_by_its_author_alone() -> None:
    access = folded(told((COPY, PUBLISHED)))
    author = Caller(account="ada", scopes=frozenset({"author"}), kind="token")
    access.check_manages(author, "copy")
    other = Caller(account="grace", scopes=frozenset({"author"}), kind="token")
    with pytest.raises(Refused, match="another author"):
        access.check_manages(other, "copy")
    staff = Caller(account="grace", scopes=frozenset({"admin:problems"}), kind="token")
    access.check_manages(staff, "copy")
