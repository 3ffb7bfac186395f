"""Consents: which text of which problem a participant accepted; without it nothing is taken in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.decider import Decider
from shared.errors import Refused
from shared.events import ConsentGiven, ConsentWithdrawn, Fact, ProblemPublished

# The digest of the text that was accepted, by problem.
Consents = Mapping[str, str]


@dataclass(frozen=True)
class GiveConsent:
    """Accept the text with this digest; `published` is the problem as it is now."""

    problem: str
    digest: str
    published: ProblemPublished


@dataclass(frozen=True)
class WithdrawConsent:
    """Take back what was accepted of a problem."""

    problem: str


def text_of(published: ProblemPublished) -> str | None:
    """The digest of the text that a problem asks to accept, None if there is none.

    What the event names is among its files, or it would not have been published.
    """
    return published.files[published.consent].digest if published.consent else None


def decide(command: GiveConsent | WithdrawConsent, state: Consents) -> Sequence[Fact]:
    """What is decided; nothing if it is so already. Errors: Refused for another text."""
    given = state.get(command.problem)
    if isinstance(command, WithdrawConsent):
        if given is None:
            return ()
        return (ConsentWithdrawn(problem=command.problem, digest=given),)
    if command.digest != text_of(command.published):
        what = f"{command.problem} asks for no consent to a text of this digest: read it again"
        raise Refused("wrong_state", what, "digest")
    if given == command.digest:
        return ()
    number = command.published.number
    return (ConsentGiven(problem=command.problem, number=number, digest=command.digest),)


def evolve(state: Consents, fact: Fact) -> Consents:
    """What a participant has accepted after one more event."""
    match fact:
        case ConsentGiven():
            return {**state, fact.problem: fact.digest}
        case ConsentWithdrawn():
            return {slug: one for slug, one in state.items() if slug != fact.problem}
    return state


consents = Decider[GiveConsent | WithdrawConsent, Consents, Fact]({}, decide, evolve)


def check(state: Consents, slug: str, published: ProblemPublished) -> None:
    """Refuse who has not accepted what a problem asks for. Errors: Refused `consent_missing`."""
    asked = text_of(published)
    if asked is not None and state.get(slug) != asked:
        how = f"`warpboard consent {slug}`, or GET and then POST /v1/problems/{slug}/consent"
        what = f"{slug} asks you to accept {published.consent} before you submit: read and accept"
        raise Refused("consent_missing", f"{what} it by {how}", "problem")
