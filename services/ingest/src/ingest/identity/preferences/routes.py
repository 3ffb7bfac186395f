"""Routes of preferences, for participants and for the Discord edge."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Query

from ingest.http.requests import Id
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.identity.preferences.service import PreferenceCommands, PreferencesRequest
from shared.api.accounts import (
    DiscordParticipant,
    DiscordParticipants,
    NoticeKind,
    Preferences,
    SubmissionOwner,
)
from shared.api.moderation import RejudgeSummary
from shared.http import DocumentedRoute


def preferences_router(preferences: PreferenceCommands, auth: Authenticator) -> APIRouter:
    """The routes for participants' own preferences, and those for the Discord edge."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    TokenManager: TypeAlias = Annotated[Caller, Depends(auth.token_manager())]
    edge = [Depends(auth.edge)]

    @router.get("/me/preferences")
    async def chosen(caller: TokenManager) -> Preferences:
        """One's own preferences; nothing is sent that was not asked for."""
        return preferences.find(caller.account)

    @router.put("/me/preferences")
    async def choose(body: PreferencesRequest, caller: TokenManager) -> Preferences:
        """Change preferences: direct message, the submission's thread, or off."""
        return await preferences.choose(caller, body)

    @router.get("/edge/participants", dependencies=edge)
    async def interested(wish: Annotated[NoticeKind, Query()]) -> DiscordParticipants:
        """Participants who want this notification, for the Discord edge only."""
        return DiscordParticipants(items=await preferences.load_recipients(wish))

    @router.get("/edge/participants/{id}", dependencies=edge)
    async def participant(id: Id) -> DiscordParticipant:  # noqa: A002  (the contract's own word)
        """A participant with their Discord id, for the Discord edge only."""
        return await preferences.load_participant(id)

    @router.get("/edge/submissions/{id}", dependencies=edge)
    async def submission(id: Id) -> SubmissionOwner:  # noqa: A002  (the contract's own word)
        """The owner of a submission, by its id, for the Discord edge only."""
        return await preferences.owner(id)

    @router.get("/edge/rejudges/{id}", dependencies=edge)
    async def rejudge(id: Id) -> RejudgeSummary:  # noqa: A002  (the contract's own word)
        """A rejudge, for the Discord edge only."""
        return await preferences.rejudge(id)

    return router
