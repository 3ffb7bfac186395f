"""Rules of webhooks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared.errors import Refused
from shared.event_log import Decider
from shared.events import Fact, WebhookAdded, WebhookRemoved


@dataclass(frozen=True)
class Webhook:
    """The state of a webhook."""

    added: WebhookAdded | None = None
    is_removed: bool = False


@dataclass(frozen=True)
class Remove:
    """Remove a webhook for one of these accounts, which belong to one participant."""

    accounts: Sequence[str]
    reason: str


def decide_webhook(command: WebhookAdded | Remove, state: Webhook) -> Sequence[Fact]:
    """Return the event, or nothing if it changes nothing. Raises `Refused` for another owner."""
    if isinstance(command, WebhookAdded):
        assert state.added is None, "webhook ids are unique"
        return (command,)
    if state.added is None or state.added.account not in command.accounts:
        raise unknown_webhook()
    return () if state.is_removed else (WebhookRemoved(reason=command.reason),)


def evolve_webhook(state: Webhook, fact: Fact) -> Webhook:
    """Return the webhook after one more event."""
    match fact:
        case WebhookAdded():
            return replace(state, added=fact)
        case WebhookRemoved():
            return replace(state, is_removed=True)
    return state


WEBHOOK_DECIDER = Decider[WebhookAdded | Remove, Webhook, Fact](
    Webhook(), decide_webhook, evolve_webhook
)


def unknown_webhook() -> Refused:
    """Return the refusal for a webhook that the caller does not have."""
    return Refused("unknown_webhook", "you have no such webhook", "id")
