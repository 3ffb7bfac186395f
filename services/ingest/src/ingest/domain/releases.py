"""What of a leaderboard may be passed on to everybody: by its versions' `publish`, and consents."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from ingest.domain.consents import text_of
from ingest.domain.problems import PUBLIC, Problem
from shared.errors import Refused
from shared.events import ConsentGiven, ConsentWithdrawn, Fact, ProblemPublished

AFTER_CLOSE, ALWAYS = "after_close", "always"
PRIVATE = "export it with private=true"


def versions(facts: Iterable[Fact]) -> dict[int, ProblemPublished]:
    """Every version of a problem, by number."""
    return {one.number: one for one in facts if isinstance(one, ProblemPublished)}


def published(
    slug: str, state: Problem, known: Mapping[int, ProblemPublished], at: datetime
) -> dict[int, ProblemPublished]:
    """The versions of which everybody may have what was sent to them.

    Errors: Refused `private_only` if it is none, saying when it will be.
    """
    if state.visibility != PUBLIC:
        raise Refused("private_only", f"{slug} is closed: {PRIVATE}", "private")
    is_over = state.deadline_at is not None and state.deadline_at <= at
    words = (ALWAYS, AFTER_CLOSE) if is_over else (ALWAYS,)
    found = {number: one for number, one in known.items() if one.publish in words}
    if found:
        return found
    if all(one.publish != AFTER_CLOSE for one in known.values()):
        what = f"{slug} says publish: never: what is sent in is passed on by nobody"
    elif state.deadline_at is None:
        what = f"{slug} is published once its deadline is over, and it has none"
    else:
        what = f"{slug} is published from {state.deadline_at.isoformat()} on"
    raise Refused("private_only", f"{what}; {PRIVATE}", "private")


def accepted(facts: Iterable[Fact], slug: str) -> frozenset[str]:
    """The texts of a problem that a participant accepts, by digest; taking back is of all."""
    found: set[str] = set()
    for fact in facts:
        match fact:
            case ConsentGiven() if fact.problem == slug:
                found.add(fact.digest)
            case ConsentWithdrawn() if fact.problem == slug:
                found.clear()
    return frozenset(found)


def agrees(texts: frozenset[str], version: ProblemPublished) -> bool:
    """Whether who accepts these texts lets be passed on what they sent to a version."""
    asked = text_of(version)
    return asked is None or asked in texts
