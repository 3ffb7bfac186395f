"""Webhooks have a bounded history, and receive only what their owners may know at that moment."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.webhooks.postgres import DAYS_MAX, DELIVERIES_MAX, WebhookStore
from ranker.webhooks.subscriptions import Payload, Subscriptions, evolve
from shared import events, subjects
from shared.event_log import RecordedEvent
from shared.events import Fact
from shared.wire import EventMetadata, make_envelope
from tests.ranker.webhook_platform import WebhookPlatform
from tests.support.lives import T0, problem

HOOK = events.WebhookAdded(account="ada", problems=[], kinds=["problem.closed"])
INVITE = events.InviteIssued(code_hash="c", problems=["m"], expires_at=None)
SHUT = events.LeaderboardChanged(visibility="closed", reason="r")
OPEN = events.LeaderboardChanged(visibility="public", reason="r")
FACTS: list[tuple[str, Fact]] = [
    (subjects.webhook("h1"), HOOK),
    (subjects.webhook("h1"), events.WebhookRemoved(reason="r")),
    (subjects.account("ada"), events.AccountBanned(reason="r")),
    (subjects.account("ada"), events.AccountUnbanned(reason="r")),
    (subjects.problem("m"), problem()),
    (subjects.problem("m"), SHUT),
    (subjects.problem("m"), OPEN),
    (subjects.invite("i1"), INVITE),
    (subjects.invite("i1"), events.InviteRedeemed(account="ada")),
    (subjects.invite("i1"), events.InviteRevoked(reason="r")),
]
LATER = T0 + timedelta(days=1)


def make_event(seq: int, aggregate: str, fact: Fact) -> RecordedEvent:
    return RecordedEvent(
        seq, make_envelope(fact, aggregate, EventMetadata(f"e{seq}", T0, "service:test", "", ""))
    )


def standing(*facts: tuple[str, Fact]) -> Subscriptions:
    subscriptions = Subscriptions()
    for seq, (aggregate, fact) in enumerate(facts, 1):
        evolve(subscriptions, make_event(seq, aggregate, fact))
    return subscriptions


def is_told(subscriptions: Subscriptions) -> bool:
    telling = Payload("e", "problem.closed", LATER, "m", {}, seq=99)
    return bool(subscriptions.recipients(telling, LATER))


@given(st.lists(st.sampled_from(FACTS), max_size=12))
def test_nobody_is_told_against_the_last_word(facts: list[tuple[str, Fact]]) -> None:
    subscriptions = standing(*facts)
    kinds = [type(fact).__name__ for _, fact in facts]

    def last(*names: str) -> str:
        return next((kind for kind in reversed(kinds) if kind in names), "")

    boards = [fact for _, fact in facts if isinstance(fact, events.LeaderboardChanged)]
    is_shut = bool(boards) and boards[-1] == SHUT
    is_member = last("InviteIssued", "InviteRevoked") == "InviteIssued"
    is_member = is_member and "InviteRedeemed" in kinds
    assert is_told(subscriptions) == (
        last("WebhookAdded", "WebhookRemoved") == "WebhookAdded"
        and last("AccountBanned", "AccountUnbanned") != "AccountBanned"
        and (not is_shut or is_member)
    )


@given(st.lists(st.sampled_from(FACTS), max_size=12))
def test_an_event_that_comes_twice_changes_nothing(facts: list[tuple[str, Fact]]) -> None:
    subscriptions, twice = standing(*facts), standing(*facts)
    for seq, (aggregate, fact) in enumerate(facts, 1):
        evolve(twice, make_event(seq, aggregate, fact))
    assert twice == subscriptions


def test_a_ban_ends_by_itself() -> None:
    until_at = LATER - timedelta(hours=1)
    banned = events.AccountBanned(reason="r", until_at=until_at)
    subscriptions = standing(FACTS[0], (subjects.account("ada"), banned))
    assert subscriptions.is_banned("ada", T0)
    assert is_told(subscriptions)


def test_what_came_before_a_hook_is_not_for_it() -> None:
    subscriptions = standing(FACTS[4], FACTS[0])
    assert not subscriptions.recipients(
        Payload("e", "problem.closed", LATER, "m", {}, seq=1), LATER
    )
    assert not subscriptions.recipients(Payload("e", "problem.closed", T0, "m", {}), LATER)
    assert subscriptions.recipients(Payload("e", "problem.closed", LATER, "m", {}), LATER)


@pytest.mark.server
@pytest.mark.timeout(120)
async def test_a_history_is_bounded_in_time_and_length(hooked: WebhookPlatform) -> None:
    for hook in ("h1", "h2"):
        await hooked.add(hook, "ada", "https://x.org/")
    await hooked.ask(
        "insert into accounts.webhook_delivery"
        " (webhook, event, kind, problem, data, at, state, created_at)"
        " select 'h1', 'e' || n, 'test', '', '{}', now(), 'delivered', now()"
        " from generate_series(1, %(count)s) as n",
        count=DELIVERIES_MAX + 5,
    )
    await hooked.ask(
        "insert into accounts.webhook_delivery"
        " (webhook, event, kind, problem, data, at, state, created_at)"
        " values ('h2', 'old', 'test', '', '{}', now(), 'failed',"
        " now() - make_interval(days => %(days)s)), ('h2', 'new', 'test', '', '{}', now(),"
        " 'failed', now())",
        days=DAYS_MAX + 1,
    )
    await WebhookStore(hooked.tables).delete_old()
    assert len(await hooked.states("h1")) == DELIVERIES_MAX
    assert len(await hooked.states("h2")) == 1
