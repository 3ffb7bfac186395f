"""What a problem asks participants to accept before they submit, read, accepted and taken back."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field
from typing_extensions import TypedDict

from ingest.domain.callers import Caller, check_scope
from ingest.http import shapes
from ingest.http.bodies import Body, SlugInPath, shown
from ingest.http.who import Gate
from ingest.service import Ingest
from shared.answers import Digest, Documented


class Given(Body):
    """The digest of the text that is accepted, as it was read."""

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Consent(TypedDict):
    """What is to be accepted, and whether it is."""

    problem: str
    problem_version: int
    is_asked: Annotated[bool, Field(description="Whether there is anything to accept.")]
    is_given: Annotated[bool, Field(description="Whether one accepts what it says now.")]
    file: Annotated[str, Field(description="Which file of the problem it is; empty if none.")]
    digest: Digest | None
    text: str


def consents(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes, each for the participant themselves."""
    router = APIRouter(prefix="/v1/problems/{slug}/consent", route_class=Documented)
    submitter = gate.participant("submit")

    @router.get("")
    async def asked(slug: SlugInPath, caller: Annotated[Caller, Depends(submitter)]) -> Consent:
        """What one accepts before one submits, as text, and whether one did."""
        found = await ingest.consents.asked(caller, slug.lower())
        return {
            "problem": slug.lower(),
            "problem_version": found.number,
            "is_asked": found.digest is not None,
            "is_given": found.is_given,
            "file": found.file,
            "digest": found.digest,
            "text": found.text,
        }

    @router.post("")
    async def give(
        slug: SlugInPath, body: Given, caller: Annotated[Caller, Depends(submitter)]
    ) -> shapes.Made:
        """Accept the text of this digest: once, for every version that asks for the same."""
        return shown(await ingest.consents.give(caller, slug.lower(), body.digest))

    @router.delete("")
    async def withdraw(
        slug: SlugInPath, caller: Annotated[Caller, Depends(gate.participant())]
    ) -> shapes.Made:
        """Take it back: nothing more of yours is published by it, and you submit there no more.

        It is left to who is banned, for what they sent may still be published.
        """
        if not caller.ban:
            check_scope(caller, "submit")
        return shown(await ingest.consents.withdraw(caller, slug.lower()))

    return router
