"""Rules of notification preferences."""

from collections.abc import Mapping, Sequence

from ingest.identity.access.preferences import (
    PREFERENCES,
    Chosen,
    evolve_preferences,
    with_defaults,
)
from shared import events
from shared.errors import Refused
from shared.event_log import Decider


def decide_preferences(changes: Mapping[str, str], state: Chosen) -> Sequence[events.Fact]:
    """Return the changes; unchanged preferences are omitted.

    Raises `Refused` if a preference or value does not exist.
    """
    for name, value in changes.items():
        if value not in PREFERENCES.get(name, ()):
            known = ", ".join(PREFERENCES.get(name, PREFERENCES))
            raise Refused("invalid_request", f"{value!r} is not one of {known}", name)
    now = with_defaults(state)
    return [
        events.PreferenceSet(preference=name, value=value)
        for name, value in changes.items()
        if now[name] != value
    ]


PREFERENCE_DECIDER = Decider[Mapping[str, str], Chosen, events.Fact](
    {}, decide_preferences, evolve_preferences
)
