"""Preferences: how participants are told of what concerns them on Discord, as they chose it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.decider import Decider
from shared.errors import Refused
from shared.event_log import Recorded
from shared.events import PREFERENCES, Fact, PreferenceSet
from shared.subjects import last_token
from shared.wire import is_genuine

# What was chosen of each; what is not in it is as it is for who chose nothing.
Chosen = Mapping[str, str]
USUAL = {name: values[0] for name, values in PREFERENCES.items()}


@dataclass(frozen=True)
class Choose:
    """Be told so from now on; what is not in `wanted` stays as it is."""

    wanted: Mapping[str, str]


def decide(command: Choose, state: Chosen) -> Sequence[Fact]:
    """What is decided; nothing of what is so already. Errors: Refused for what there is not."""
    for name, value in command.wanted.items():
        if value not in PREFERENCES.get(name, ()):
            known = ", ".join(PREFERENCES.get(name, PREFERENCES))
            raise Refused("invalid_request", f"{value!r} is none of {known}", name)
    now = whole(state)
    return [
        PreferenceSet(preference=name, value=value)
        for name, value in command.wanted.items()
        if now[name] != value
    ]


def evolve(state: Chosen, fact: Fact) -> Chosen:
    """What somebody has chosen after one more event."""
    if isinstance(fact, PreferenceSet):
        return {**state, fact.preference: fact.value}
    return state


preferences = Decider[Choose, Chosen, Fact]({}, decide, evolve)


def whole(chosen: Chosen) -> dict[str, str]:
    """Every preference, also what nobody chose; what there is no longer is left out.

    >>> whole({"overtaken": "dm"})["overtaken"], whole({})["overtaken"]
    ('dm', 'off')
    """
    return {name: chosen.get(name, usual) for name, usual in USUAL.items()}


@dataclass
class Choices:
    """What all participants have chosen, as the log tells it."""

    seq: int = 0
    chosen: dict[str, Chosen] = field(default_factory=dict)

    def take(self, event: Recorded) -> None:
        """Fold one more event in; one that was folded changes nothing."""
        if event.seq <= self.seq:
            return
        self.seq = event.seq
        if event.envelope.type == PreferenceSet.__name__ and is_genuine(event.envelope):
            account = last_token(event.envelope.agg)
            self.chosen[account] = evolve(self.chosen.get(account, {}), event.fact)

    def of(self, account: str) -> dict[str, str]:
        """How somebody is told."""
        return whole(self.chosen.get(account, {}))

    def who(self, preference: str) -> Iterable[str]:
        """The accounts that chose something else than what is usual."""
        usual = USUAL[preference]
        return [one for one, said in self.chosen.items() if said.get(preference, usual) != usual]
