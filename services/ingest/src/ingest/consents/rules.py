"""Consents: which text of which problem a participant accepted."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shared.errors import Refused
from shared.event_log import Decider
from shared.events import ConsentGiven, ConsentWithdrawn, Fact, ProblemPublished

# The digest of the text that was accepted, by problem.
Consents = Mapping[str, str]


class GiveConsent(NamedTuple):
    """Accept the text with this digest; `published` is the current version of the problem."""

    problem: str
    digest: str
    published: ProblemPublished


def consent_digest(published: ProblemPublished) -> str | None:
    """Return the digest of the text that a problem asks to accept, or None.

    The file named by the event is among its files; otherwise it would not have been published.
    """
    return published.files[published.consent].digest if published.consent else None


def decide_consent(command: GiveConsent, state: Consents) -> Sequence[Fact]:
    """Return the event, or nothing if it changes nothing. Raises `Refused` for another text."""
    slug, digest, published = command
    if digest != consent_digest(published):
        message = f"{slug} does not ask for consent to a text with this digest: read it again"
        raise Refused("wrong_state", message, "digest")
    if state.get(slug) == digest:
        return ()
    return (ConsentGiven(problem=slug, number=published.number, digest=digest),)


def decide_withdrawal(slug: str, state: Consents) -> Sequence[Fact]:
    """Return the event, or nothing if there is no consent."""
    digest = state.get(slug)
    return () if digest is None else (ConsentWithdrawn(problem=slug, digest=digest),)


def evolve(state: Consents, fact: Fact) -> Consents:
    """Return the consents of a participant after one more event."""
    match fact:
        case ConsentGiven():
            return {**state, fact.problem: fact.digest}
        case ConsentWithdrawn():
            return {slug: digest for slug, digest in state.items() if slug != fact.problem}
    return state


consents = Decider[GiveConsent, Consents, Fact]({}, decide_consent, evolve)
withdrawals = Decider[str, Consents, Fact]({}, decide_withdrawal, evolve)


def check(state: Consents, slug: str, published: ProblemPublished) -> None:
    """Refuse a participant who has not accepted the text of a problem."""
    required = consent_digest(published)
    if required is not None and state.get(slug) != required:
        message = (
            f"{slug} requires your consent to {published.consent} to submit: read and accept it by "
            f"`warpboard problem consent {slug}`, or GET and then POST /v1/problems/{slug}/consent"
        )
        raise Refused("consent_missing", message, "problem")
