"""Webhooks: an address that is told of events, until it is removed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.decider import Decider
from shared.errors import Refused
from shared.events import Fact, WebhookAdded, WebhookRemoved


@dataclass(frozen=True)
class Webhook:
    """A webhook as its history tells it."""

    added: WebhookAdded | None = None
    is_removed: bool = False


@dataclass(frozen=True)
class Add:
    """Tell an address of these kinds of events; no problems are all of them."""

    account: str
    problems: Sequence[str]
    kinds: Sequence[str]


@dataclass(frozen=True)
class Remove:
    """Tell it nothing any more."""

    account: str
    reason: str


def decide(command: Add | Remove, state: Webhook) -> Sequence[Fact]:
    """What is decided; nothing if it is so already. Errors: Refused for somebody else's."""
    if isinstance(command, Add):
        assert state.added is None, "an id is drawn once"
        problems, kinds = list(command.problems), list(command.kinds)
        return (WebhookAdded(account=command.account, problems=problems, kinds=kinds),)
    if state.added is None or state.added.account != command.account:
        raise unknown()
    return () if state.is_removed else (WebhookRemoved(reason=command.reason),)


def evolve(state: Webhook, fact: Fact) -> Webhook:
    """What a webhook is after one more event."""
    match fact:
        case WebhookAdded():
            return replace(state, added=fact)
        case WebhookRemoved():
            return replace(state, is_removed=True)
    return state


webhooks = Decider[Add | Remove, Webhook, Fact](Webhook(), decide, evolve)


def unknown() -> Refused:
    """What is said of a webhook that is not there, or somebody else's."""
    return Refused("unknown_webhook", "you have no such webhook", "id")
