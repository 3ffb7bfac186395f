"""The consent a problem requires before submitting: read, give and withdraw."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.access.feed import AccessFeed
from ingest.access.rules import Caller, check_scope
from ingest.accounts import rules
from ingest.decisions import Decisions
from ingest.http.requests import Authenticator, RequestModel, SlugInPath, decision_response
from ingest.ports import Ports
from ingest.problems import rules as problems
from shared import subjects
from shared.api.accounts import Consent
from shared.api.queues import DecisionResponse
from shared.blobs import BlobNotFound
from shared.errors import Failed
from shared.events import ProblemPublished
from shared.http import DocumentedRoute


@dataclass(frozen=True)
class Consents:
    """Shows, gives and withdraws consents. Methods may raise `Refused` and `Failed`."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    async def status(self, caller: Caller, slug: str) -> Consent:
        """Return the consent a problem requires. Raises `Refused` and `Failed`."""
        published = await self.published(caller, slug)
        digest, text, is_given = rules.consent_digest(published), "", False
        if digest is not None:
            account = subjects.account(caller.id)
            accepted = await self.decisions.load_state(account, rules.consents)
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

    async def accepted_digests(self, account: str, slug: str) -> frozenset[str]:
        """Return the digests of a problem's texts that a participant accepts. Raises `Failed`."""
        history = await self.ports.log.history(subjects.account(account))
        return problems.accepted_consents((event.fact for event in history), slug)

    async def published(self, caller: Caller, slug: str) -> ProblemPublished:
        """Return the current version of a problem that the caller may see."""
        self.feed.now().check_sees(caller, slug)
        state = await self.decisions.load_state(subjects.problem(slug), problems.problems)
        return problems.newest_version(slug, state)


class ConsentRequest(RequestModel):
    """The digest of the text that is accepted."""

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def consents_router(consents: Consents, auth: Authenticator) -> APIRouter:
    """The routes, each for the participants themselves."""
    router = APIRouter(prefix="/v1/problems/{slug}/consent", route_class=DocumentedRoute)
    Submitter: TypeAlias = Annotated[Caller, Depends(auth.participant("submit"))]
    decisions = consents.decisions

    @router.get("")
    async def consent_status(slug: SlugInPath, caller: Submitter) -> Consent:
        """The text to accept before submitting, and whether it is accepted."""
        return await consents.status(caller, slug.lower())

    @router.post("")
    async def give(slug: SlugInPath, body: ConsentRequest, caller: Submitter) -> DecisionResponse:
        """Accept the text with this digest, for every version that requires the same text."""
        slug = slug.lower()
        published = await consents.published(caller, slug)
        agg, command = subjects.account(caller.id), rules.GiveConsent(slug, body.digest, published)
        return decision_response(
            await decisions.make(agg, rules.consents, command, caller.actor, slug)
        )

    @router.delete("")
    async def withdraw(
        slug: SlugInPath, caller: Annotated[Caller, Depends(auth.participant())]
    ) -> DecisionResponse:
        """Withdraw a consent: later releases leave your submissions out, and you cannot submit.

        Banned participants may do this, too, because their submissions may still be published.
        """
        if not caller.ban:
            check_scope(caller, "submit")
        slug = slug.lower()
        await consents.published(caller, slug)
        agg = subjects.account(caller.id)
        return decision_response(
            await decisions.make(agg, rules.withdrawals, slug, caller.actor, slug)
        )

    return router
