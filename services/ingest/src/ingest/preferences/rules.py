"""Preferences: how participants want to be notified on Discord."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from shared.api.accounts import Preferences
from shared.errors import Refused
from shared.event_log import Decider, RecordedEvent
from shared.events import Fact, PreferenceSet
from shared.subjects import last_token
from shared.wire import is_genuine

# The chosen values; preferences that are missing have their default.
Chosen = Mapping[str, str]
# The choices for each preference; the first one is the default.
PREFERENCES = {name: get_args(hint) for name, hint in Preferences.__annotations__.items()}
DEFAULTS = {name: values[0] for name, values in PREFERENCES.items()}


def decide(changes: Mapping[str, str], state: Chosen) -> Sequence[Fact]:
    """Return the changes; unchanged preferences are omitted.

    Raises `Refused` if a preference or value does not exist.
    """
    for name, value in changes.items():
        if value not in PREFERENCES.get(name, ()):
            known = ", ".join(PREFERENCES.get(name, PREFERENCES))
            raise Refused("invalid_request", f"{value!r} is not one of {known}", name)
    now = with_defaults(state)
    return [
        PreferenceSet(preference=name, value=value)
        for name, value in changes.items()
        if now[name] != value
    ]


def evolve(state: Chosen, fact: Fact) -> Chosen:
    """Return the chosen preferences after one more event."""
    if isinstance(fact, PreferenceSet):
        return {**state, fact.preference: fact.value}
    return state


preferences = Decider[Mapping[str, str], Chosen, Fact]({}, decide, evolve)


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

    def take(self, event: RecordedEvent) -> None:
        """Fold one more event; an event that was folded before changes nothing."""
        if event.seq <= self.seq:
            return
        self.seq = event.seq
        if event.envelope.type == PreferenceSet.__name__ and is_genuine(event.envelope):
            account = last_token(event.envelope.agg)
            self.chosen[account] = evolve(self.chosen.get(account, {}), event.fact)

    def of(self, account: str) -> dict[str, str]:
        """Return the preferences of a participant."""
        return with_defaults(self.chosen.get(account, {}))

    def who(self, preference: str) -> Iterable[str]:
        """Return the accounts that chose something other than the default."""
        default = DEFAULTS[preference]
        return [
            account
            for account, chosen in self.chosen.items()
            if chosen.get(preference, default) != default
        ]
