"""The notification preferences of all participants, folded from the log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import get_args

from shared import events
from shared.api.accounts import Preferences
from shared.event_log import RecordedEvent
from shared.subjects import last_token
from shared.wire import is_genuine

# The chosen values; preferences that are missing have their default.
Chosen = Mapping[str, str]
# The choices for each preference; the first one is the default.
PREFERENCES = {name: get_args(hint) for name, hint in Preferences.__annotations__.items()}
DEFAULTS = {name: values[0] for name, values in PREFERENCES.items()}


def evolve_preferences(state: Chosen, fact: events.Fact) -> Chosen:
    """Return the chosen preferences after one more event."""
    if isinstance(fact, events.PreferenceSet):
        return {**state, fact.preference: fact.value}
    return state


def with_defaults(chosen: Chosen) -> dict[str, str]:
    """Return every preference, with defaults where nothing was chosen.

    >>> with_defaults({"overtaken": "dm"})["overtaken"], with_defaults({})["overtaken"]
    ('dm', 'off')
    """
    return {name: chosen.get(name, default) for name, default in DEFAULTS.items()}


@dataclass
class PreferenceIndex:
    """The preferences of all participants, folded from the log."""

    seq: int = 0
    chosen: dict[str, Chosen] = field(default_factory=dict)

    def fold(self, event: RecordedEvent) -> None:
        """Fold one more event; an event that was folded before changes nothing."""
        if event.seq <= self.seq:
            return
        self.seq = event.seq
        if event.envelope.type == events.PreferenceSet.__name__ and is_genuine(event.envelope):
            account = last_token(event.envelope.aggregate)
            self.chosen[account] = evolve_preferences(self.chosen.get(account, {}), event.fact)

    def find(self, account: str) -> dict[str, str]:
        """Return the preferences of a participant."""
        return with_defaults(self.chosen.get(account, {}))

    def accounts_with(self, preference: str) -> Iterable[str]:
        """Return the accounts that chose something other than the default."""
        default = DEFAULTS[preference]
        return [
            account
            for account, chosen in self.chosen.items()
            if chosen.get(preference, default) != default
        ]
