"""Consents: which text of which problem a participant accepted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.decider import Decider
from shared.errors import Refused
from shared.events import ConsentGiven, ConsentWithdrawn, Fact, ProblemPublished

# The digest of the text that was accepted, by problem.
Consents = Mapping[str, str]


@dataclass(frozen=True)
class GiveConsent:
    """Accept the text with this digest; `published` is the current version of the problem."""

    problem: str
    digest: str
    published: ProblemPublished


@dataclass(frozen=True)
class WithdrawConsent:
    """Withdraw the consent for a problem."""

    problem: str


def consent_digest(published: ProblemPublished) -> str | None:
    """Return the digest of the text that a problem asks to accept, or None.

    The file named by the event is among its files; otherwise it would not have been published.
    """
    return published.files[published.consent].digest if published.consent else None


def decide(command: GiveConsent | WithdrawConsent, state: Consents) -> Sequence[Fact]:
    """Return the event, or nothing if it changes nothing. Raises `Refused` for another text."""
    accepted = state.get(command.problem)
    if isinstance(command, WithdrawConsent):
        if accepted is None:
            return ()
        return (ConsentWithdrawn(problem=command.problem, digest=accepted),)
    if command.digest != consent_digest(command.published):
        message = (
            f"{command.problem} does not ask for consent to a text with this digest: read it again"
        )
        raise Refused("wrong_state", message, "digest")
    if accepted == command.digest:
        return ()
    number = command.published.number
    return (ConsentGiven(problem=command.problem, number=number, digest=command.digest),)


def evolve(state: Consents, fact: Fact) -> Consents:
    """Return the consents of a participant after one more event."""
    match fact:
        case ConsentGiven():
            return {**state, fact.problem: fact.digest}
        case ConsentWithdrawn():
            return {slug: digest for slug, digest in state.items() if slug != fact.problem}
    return state


consents = Decider[GiveConsent | WithdrawConsent, Consents, Fact]({}, decide, evolve)


def check(state: Consents, slug: str, published: ProblemPublished) -> None:
    """Refuse a participant who has not accepted the text of a problem."""
    required = consent_digest(published)
    if required is not None and state.get(slug) != required:
        command_hint = (
            f"`warpboard problem consent {slug}`, or GET and then POST /v1/problems/{slug}/consent"
        )
        message = f"{slug} requires your consent to {published.consent} to submit: read and accept"
        raise Refused("consent_missing", f"{message} it by {command_hint}", "problem")
