"""Rules of consents: the text that a problem requires, and the licence of sources in releases."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ingest.identity.accounts.rules import Consents, evolve_consents
from shared import events
from shared.errors import Refused
from shared.event_log import Decider
from shared.licences import LICENCES, UNDECIDED

RANKED, NEVER = "ranked", "never"


def consent_digest(published: events.ProblemPublished) -> str | None:
    """Return the digest of the text that a problem asks to accept, or None.

    The file named by the event is among its files; otherwise it would not have been published.
    """
    return published.files[published.consent].digest if published.consent else None


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


CONSENT_DECIDER = Decider[GiveConsent, Consents, events.Fact]({}, decide_consent, evolve_consents)
WITHDRAWAL_DECIDER = Decider[str, Consents, events.Fact]({}, decide_withdrawal, evolve_consents)


def has_consent(state: Consents, slug: str, published: events.ProblemPublished) -> bool:
    """Return whether a participant has accepted the text of a problem, if it asks for one."""
    required = consent_digest(published)
    return required is None or state.get(slug) == required


def check_consent(state: Consents, slug: str, published: events.ProblemPublished) -> None:
    """Refuse a participant who has not accepted the text of a problem."""
    if not has_consent(state, slug, published):
        message = (
            f"{slug} requires your consent to {published.consent} to submit: read and accept it by "
            f"`warpboard problem consent {slug}`, or GET and then POST /v1/problems/{slug}/consent"
        )
        raise Refused("consent_missing", message, "problem")


class LicenceChoice(NamedTuple):
    """The licence of a submission, "" for none, and that of its account."""

    own: str
    account: str


def licence_notice(
    choice: LicenceChoice, mode: str, slug: str, published: events.ProblemPublished
) -> str:
    """Return what somebody has to read before their first ranked submission; "" once they chose."""
    is_chosen = choice.own or choice.account != UNDECIDED
    if is_chosen or mode != RANKED or published.publish == NEVER:
        return ""
    return (
        f"{slug} publishes sources, but yours join the public kernel archive only under a licence "
        f"that you choose: {', '.join(LICENCES)}, `default` for that of the platform, or `none` to "
        "leave them out. Choose for all submissions by `warpboard notification set licence MIT` or "
        "at /account/notifications, or for one by its `licence`. Until then they are left out"
    )


def check_licence(notice: str) -> None:
    """Refuse a ranked submission of somebody who has not chosen a licence."""
    if notice:
        raise Refused("licence_missing", notice, "licence")


def accepted_consents(facts: Iterable[events.Fact], slug: str) -> frozenset[str]:
    """Return the digests of the texts that a participant accepts; withdrawing removes all."""
    digests: set[str] = set()
    for fact in facts:
        match fact:
            case events.ConsentGiven() if fact.problem == slug:
                digests.add(fact.digest)
            case events.ConsentWithdrawn() if fact.problem == slug:
                digests.clear()
    return frozenset(digests)


def allows_release(texts: frozenset[str], version: events.ProblemPublished) -> bool:
    """Return whether a participant who accepts these texts allows publication."""
    required = consent_digest(version)
    return required is None or required in texts
