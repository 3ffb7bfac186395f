"""Who may do what, as the fold tells it: what is revoked, expired or banned never passes."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from ingest.identity.access.fold import Access, evolve
from ingest.identity.caller import ANONYMOUS, Caller, check_scope
from ingest.identity.scopes import allowed_scopes, effective_scopes
from shared import events, subjects
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.events import SCOPES, Blob, Fact
from shared.wire import EventMetadata, make_envelope

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATER = T0 + timedelta(days=1)
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
    lang="py",
)


def record_events(*facts: tuple[str, Fact], actor: str = "account:ada") -> list[RecordedEvent]:
    """A log of facts about aggregates."""
    return [
        RecordedEvent(
            seq, make_envelope(fact, aggregate, EventMetadata(f"e{seq}", T0, actor, "c", "t"))
        )
        for seq, (aggregate, fact) in enumerate(facts, 1)
    ]


def fold_access(log: Sequence[RecordedEvent], access: Access | None = None) -> Access:
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


def live_tokens(access: Access, recorded_at: datetime) -> list[Caller]:
    """Everybody who gets in by any token."""
    tokens = (access.token(digest, recorded_at) for digest in list(access.tokens))
    return [access.caller(token, recorded_at) for token in tokens if token is not None]


@given(LOGS)
def test_revoked_and_expired_tokens_are_never_accepted(facts: list[tuple[str, Fact]]) -> None:
    access = fold_access(record_events(*facts))
    dead = {
        (subjects.last_token(aggregate), fact.token)
        for aggregate, fact in facts
        if isinstance(fact, events.TokenRevoked)
    }
    for digest in list(access.tokens):
        token = access.token(digest, T0)
        if token is not None:
            assert token.expires_at is None or token.expires_at > T0
            assert (token.account, token.id) not in dead


@given(LOGS)
def test_a_banned_participant_can_only_read_their_own(facts: list[tuple[str, Fact]]) -> None:
    access = fold_access(record_events(*facts))
    for caller in live_tokens(access, T0):
        assert caller.account is not None
        ban = access.bans.get(caller.account)
        if ban is not None and (ban.until_at is None or ban.until_at > T0):
            assert caller.scopes <= {"read:own"}
            assert not caller.is_staff
            assert not caller.boards
            with pytest.raises(Refused, match="banned"):
                check_scope(caller, "submit")


@pytest.mark.feature("A12")
@given(LOGS)
def test_no_caller_exceeds_their_roles(facts: list[tuple[str, Fact]]) -> None:
    access = fold_access(record_events(*facts))
    for caller in live_tokens(access, T0):
        assert caller.account is not None
        assert caller.scopes <= allowed_scopes(access.roles.get(caller.account, ()))


@given(LOGS, some.integers(0, 30))
def test_folding_an_event_twice_changes_nothing(facts: list[tuple[str, Fact]], again: int) -> None:
    log = record_events(*facts)
    once, twice = fold_access(log), fold_access(log)
    assert fold_access(log[-again:], twice) == once


@given(LOGS)
def test_a_secret_belongs_to_one_account_at_a_time(facts: list[tuple[str, Fact]]) -> None:
    access = fold_access(record_events(*facts))
    held = [digest for of in access.hashes.values() for digest in of.values()]
    assert sorted(held) == sorted(access.tokens)


def test_a_second_owner_of_a_secret_gets_no_token() -> None:
    log = record_events((ADA, issued("t1", secret="s")), (GRACE, issued("t2", secret="s")))
    token = fold_access(log).token("s", T0)
    assert token is not None
    assert token.account == "ada"


def test_a_revoked_token_stays_revoked() -> None:
    log = record_events((ADA, issued("t1")), (ADA, revoked("t1")), (ADA, issued("t1")))
    assert fold_access(log).token("hash-t1", T0) is None


def recorded_at(log: Sequence[RecordedEvent], *hours: int) -> list[RecordedEvent]:
    """A log whose events happened so many hours after its beginning."""
    times = (T0 + timedelta(hours=after) for after in hours)
    return [
        event._replace(envelope=replace(event.envelope, at=time))
        for event, time in zip(log, times, strict=True)
    ]


def test_ended_tokens_are_forgotten_after_a_day() -> None:
    ends = T0 + timedelta(hours=1)
    access = fold_access(
        recorded_at(record_events((ADA, issued("t1", ends=ends)), (ADA, issued("t2"))), 0, 0)
    )
    evolve(access, recorded_at(record_events((ADA, revoked("t2"))), 2)[0]._replace(seq=3))
    access.drop_ended(ends + timedelta(hours=23))
    assert (set(access.tokens), set(access.named)) == ({"hash-t1"}, {"t1", "t2"})
    access.drop_ended(ends + timedelta(hours=24))
    assert (set(access.tokens), set(access.named)) == (set(), {"t2"})
    access.drop_ended(ends + timedelta(hours=25))
    assert access == Access(seq=3, has_accounts=True)


def test_a_second_revocation_counts_the_same_after_the_first_was_forgotten() -> None:
    first, second = recorded_at(record_events((ADA, revoked("t1")), (ADA, revoked("t1"))), 0, 24)
    swept, unswept = fold_access([first]), fold_access([first, second])
    swept.drop_ended(second.envelope.at)
    evolve(swept, second)
    assert swept == unswept


def test_a_stranger_who_revokes_an_ended_token_makes_forgetting_no_difference() -> None:
    """Found by the next test, once in some thousand runs."""
    facts = [(GRACE, issued("t1", ends=T0)), (ADA, revoked("t1")), (GRACE, revoked("t1"))]
    log = recorded_at(record_events(*facts), 0, 24, 25)
    swept = fold_access(log[:1])
    swept.drop_ended(T0 + timedelta(hours=24))
    assert fold_access(log[1:], swept) == fold_access(log)


HOURS = some.lists(some.integers(0, 20), min_size=30, max_size=30)


@given(LOGS, HOURS, some.lists(some.booleans(), min_size=30, max_size=30))
def test_the_time_of_forgetting_makes_no_difference(
    facts: list[tuple[str, Fact]], pauses: list[int], sweeps: list[bool]
) -> None:
    facts = facts[:30]
    hours = list(accumulate(pauses[: len(facts)]))
    log = recorded_at(record_events(*facts), *hours)
    swept, unswept = Access(), fold_access(log)
    for event, is_due in zip(log, sweeps, strict=False):
        evolve(swept, event)
        if is_due:
            swept.drop_ended(event.envelope.at)
    end = T0 + timedelta(hours=hours[-1] if hours else 0)
    assert {(token.account, token.token) for token in live_tokens(swept, end)} == {
        (token.account, token.token) for token in live_tokens(unswept, end)
    }
    swept.drop_ended(end)
    unswept.drop_ended(end)
    assert swept == unswept


def test_an_event_on_a_wrong_subject_is_ignored() -> None:
    log = record_events(
        ("run.a1.r1", issued("t1")), ("run.a1.ada", events.RoleGranted(role="admin", reason=""))
    )
    assert fold_access(log) == Access(seq=2)


def test_admin_implies_every_operator_scope() -> None:
    scopes = effective_scopes(["admin"], ["admin"])
    assert scopes == {scope for scope in SCOPES if scope.startswith("admin")}


def test_a_scope_without_its_role_has_no_effect() -> None:
    assert effective_scopes(["admin", "author"], []) == frozenset()


CLOSED = events.LeaderboardChanged(visibility="closed", reason="r")
INVITED = events.InviteIssued(code_hash="c", problems=["copy"], expires_at=None)
REDEEMED = events.InviteRedeemed(account="grace")
COPY, INVITE = subjects.problem("copy"), subjects.invite("i1")


def grace(access: Access) -> Caller:
    """The caller who is grace."""
    token = access.token("hash-t2", T0)
    assert token is not None
    return access.caller(token, T0)


def test_members_and_owners_see_a_closed_leaderboard() -> None:
    log = record_events(
        (COPY, PUBLISHED), (COPY, CLOSED), (GRACE, issued("t2")), (ADA, issued("t1"))
    )
    access = fold_access(log)
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
    log = record_events(
        (COPY, PUBLISHED),
        (COPY, CLOSED),
        (GRACE, issued("t2")),
        (INVITE, INVITED),
        (INVITE, REDEEMED),
    )
    access = fold_access(log)
    access.check_sees(grace(access), "copy")
    over = RecordedEvent(
        6,
        make_envelope(
            events.InviteRevoked(reason="r"), INVITE, EventMetadata("e6", T0, "a", "c", "t")
        ),
    )
    evolve(access, over)
    with pytest.raises(Refused):
        access.check_sees(grace(access), "copy")
    assert access.invite("c") is None


def test_an_unknown_visibility_counts_as_closed() -> None:
    odd = events.LeaderboardChanged(visibility="friends", reason="r")
    access = fold_access(record_events((COPY, PUBLISHED), (COPY, odd)))
    with pytest.raises(Refused):
        access.check_sees(ANONYMOUS, "copy")


def test_only_the_author_manages_a_leaderboard() -> None:
    access = fold_access(record_events((COPY, PUBLISHED)))
    author = Caller(account="ada", scopes=frozenset({"author"}), kind="token")
    access.check_manages(author, "copy")
    other = Caller(account="grace", scopes=frozenset({"author"}), kind="token")
    with pytest.raises(Refused, match="another author"):
        access.check_manages(other, "copy")
    staff = Caller(account="grace", scopes=frozenset({"admin:problems"}), kind="token")
    access.check_manages(staff, "copy")
