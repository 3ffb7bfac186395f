"""What participants accept before they submit: shown, given once, and taken back."""

from dataclasses import dataclass
from typing import NamedTuple

from ingest.domain import consents, problems, releases
from ingest.domain.callers import Caller
from ingest.service.decisions import By, Decisions, Made
from ingest.service.gate import AccessFeed
from ingest.service.ports import Ports
from shared import subjects
from shared.blobs import Missing
from shared.errors import Failed
from shared.events import ProblemPublished


class Asked(NamedTuple):
    """What a problem asks to accept, and whether it is accepted; no `digest` asks for nothing."""

    number: int
    file: str
    digest: str | None
    text: str
    is_given: bool


@dataclass(frozen=True)
class Consents:
    """The commands of participants about what they accept."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    async def asked(self, caller: Caller, slug: str) -> Asked:
        """What is to be accepted. Errors: Refused, as for who submits; Failed."""
        published = await self._published(caller, slug)
        digest = consents.text_of(published)
        if digest is None:
            return Asked(published.number, "", None, "", False)
        given = await self._given(caller.id, slug)
        text = await self._text(digest)
        return Asked(published.number, published.consent, digest, text, given == digest)

    async def accepted(self, account: str, slug: str) -> frozenset[str]:
        """The texts of a problem that a participant accepts, by digest. Errors: Failed."""
        history = await self.ports.log.history(subjects.account(account))
        return releases.accepted((one.fact for one in history), slug)

    async def give(self, caller: Caller, slug: str, digest: str) -> Made:
        """Accept the text with this digest; again changes nothing. Errors: Refused; Failed."""
        published = await self._published(caller, slug)
        return await self._decide(caller, slug, consents.GiveConsent(slug, digest, published))

    async def withdraw(self, caller: Caller, slug: str) -> Made:
        """Take back what was accepted, and submit there no more. Errors: Refused; Failed."""
        await self._published(caller, slug)
        return await self._decide(caller, slug, consents.WithdrawConsent(slug))

    async def _published(self, caller: Caller, slug: str) -> ProblemPublished:
        self.feed.now().check_sees(caller, slug)
        return await self._problem(slug)

    async def _given(self, account: str, slug: str) -> str | None:
        history = await self.ports.log.history(subjects.account(account))
        return consents.consents.fold(one.fact for one in history).get(slug)

    async def _problem(self, slug: str) -> ProblemPublished:
        history = await self.ports.log.history(subjects.problem(slug))
        return problems.known(slug, problems.problems.fold(one.fact for one in history))

    async def _text(self, digest: str) -> str:
        try:
            return (await self.ports.blobs.get(digest)).decode()
        except Missing as missing:
            raise Failed(f"the text to accept is not there: {missing}") from missing

    async def _decide(
        self, caller: Caller, slug: str, command: consents.GiveConsent | consents.WithdrawConsent
    ) -> Made:
        agg, by = subjects.account(caller.id), By(caller.actor, slug)
        return await self.decisions.make(agg, consents.consents, command, by)
