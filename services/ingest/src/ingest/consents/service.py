"""The consent a problem requires before submitting: read, give and withdraw."""

from dataclasses import dataclass

from ingest.consents import rules
from ingest.decisions import DecisionResult, Decisions
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller
from ingest.ports import Ports
from ingest.problems import rules as problems
from shared import subjects
from shared.api.accounts import Consent
from shared.blobs import BlobNotFound
from shared.errors import Failed
from shared.events import ProblemPublished


@dataclass(frozen=True)
class Consents:
    """Shows, gives and withdraws consents. Methods may raise `Refused` and `Failed`."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    async def status(self, caller: Caller, slug: str) -> Consent:
        """Return the consent a problem requires. Raises `Refused` and `Failed`."""
        published = await self._published(caller, slug)
        digest, text, is_given = rules.consent_digest(published), "", False
        if digest is not None:
            account = subjects.account(caller.id)
            accepted = await self.decisions.load_state(account, rules.CONSENT_DECIDER)
            is_given = accepted.get(slug) == digest
            try:
                text = (await self.ports.blobs.get(digest)).decode()
            except BlobNotFound as missing:
                raise Failed(f"the text to accept is missing: {missing}") from missing
        return Consent(
            problem=slug,
            problem_version=published.number,
            is_asked=digest is not None,
            is_given=is_given,
            file=published.consent,
            digest=digest,
            text=text,
        )

    async def give(self, caller: Caller, slug: str, digest: str) -> DecisionResult:
        """Accept the text with this digest. Raises `Refused` and `Failed`."""
        command = rules.GiveConsent(slug, digest, await self._published(caller, slug))
        aggregate = subjects.account(caller.id)
        return await self.decisions.make(
            aggregate, rules.CONSENT_DECIDER, command, caller.actor, slug
        )

    async def withdraw(self, caller: Caller, slug: str) -> DecisionResult:
        """Withdraw the consent to a problem's text. Raises `Refused` and `Failed`."""
        await self._published(caller, slug)
        aggregate = subjects.account(caller.id)
        return await self.decisions.make(
            aggregate, rules.WITHDRAWAL_DECIDER, slug, caller.actor, slug
        )

    async def allows_release(self, account: str, slug: str, version: ProblemPublished) -> bool:
        """Return whether a participant accepts what a version requires to be published.

        Raises `Failed`.
        """
        history = await self.ports.log.history(subjects.account(account))
        digests = rules.accepted_consents((event.fact for event in history), slug)
        return rules.allows_release(digests, version)

    async def _published(self, caller: Caller, slug: str) -> ProblemPublished:
        """Return the current version of a problem that the caller may see."""
        self.feed.rights().check_sees(caller, slug)
        state = await self.decisions.load_state(subjects.problem(slug), problems.PROBLEM_DECIDER)
        return problems.newest_version(slug, state)
