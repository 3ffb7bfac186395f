"""Routes of consents."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.consents.service import Consents
from ingest.http.requests import RequestModel, Slug
from ingest.http.responses import decision_response
from ingest.identity.caller import Caller, check_scope
from ingest.identity.http.authenticator import Authenticator
from shared.api.accounts import Consent
from shared.api.queues import DecisionResponse
from shared.http import DocumentedRoute


class ConsentRequest(RequestModel):
    """The digest of the text that is accepted."""

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def consents_router(consents: Consents, auth: Authenticator) -> APIRouter:
    """The routes, each for the participants themselves."""
    router = APIRouter(prefix="/v1/problems/{slug}/consent", route_class=DocumentedRoute)
    Submitter: TypeAlias = Annotated[Caller, Depends(auth.participant("submit"))]

    @router.get("")
    async def consent_status(slug: Slug, caller: Submitter) -> Consent:
        """The text to accept before submitting, and whether it is accepted."""
        return await consents.status(caller, slug.lower())

    @router.post("")
    async def give(slug: Slug, body: ConsentRequest, caller: Submitter) -> DecisionResponse:
        """Accept the text with this digest, for every version that requires the same text."""
        return decision_response(await consents.give(caller, slug.lower(), body.digest))

    @router.delete("")
    async def withdraw(
        slug: Slug, caller: Annotated[Caller, Depends(auth.participant())]
    ) -> DecisionResponse:
        """Withdraw a consent: later releases leave your submissions out, and you cannot submit.

        Banned participants may do this, too, because their submissions may still be published.
        """
        if not caller.ban:
            check_scope(caller, "submit")
        return decision_response(await consents.withdraw(caller, slug.lower()))

    return router
