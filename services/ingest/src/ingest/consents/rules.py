"""Rules of consents: participants accept the text that a problem requires."""

from collections.abc import Sequence
from typing import NamedTuple

from ingest.identity.accounts.rules import Consents, evolve_consents
from ingest.problems.rules import consent_digest
from shared import events
from shared.errors import Refused
from shared.event_log import Decider


class GiveConsent(NamedTuple):
    """Accept the text with this digest; `published` is the current version of the problem."""

    problem: str
    digest: str
    published: events.ProblemPublished


def decide_consent(command: GiveConsent, state: Consents) -> Sequence[events.Fact]:
    """Return the event, or nothing if it changes nothing. Raises `Refused` for another text."""
    slug, digest, published = command
    if digest != consent_digest(published):
        message = f"{slug} does not ask for consent to a text with this digest: read it again"
        raise Refused("wrong_state", message, "digest")
    if state.get(slug) == digest:
        return ()
    return (events.ConsentGiven(problem=slug, number=published.number, digest=digest),)


def decide_withdrawal(slug: str, state: Consents) -> Sequence[events.Fact]:
    """Return the event, or nothing if there is no consent."""
    digest = state.get(slug)
    return () if digest is None else (events.ConsentWithdrawn(problem=slug, digest=digest),)


consents = Decider[GiveConsent, Consents, events.Fact]({}, decide_consent, evolve_consents)
withdrawals = Decider[str, Consents, events.Fact]({}, decide_withdrawal, evolve_consents)


def check_consent(state: Consents, slug: str, published: events.ProblemPublished) -> None:
    """Refuse a participant who has not accepted the text of a problem."""
    required = consent_digest(published)
    if required is not None and state.get(slug) != required:
        message = (
            f"{slug} requires your consent to {published.consent} to submit: read and accept it by "
            f"`warpboard problem consent {slug}`, or GET and then POST /v1/problems/{slug}/consent"
        )
        raise Refused("consent_missing", message, "problem")
