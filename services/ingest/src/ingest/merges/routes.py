"""Routes that merge two accounts of one participant, and undo it."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.http.requests import NameOrAccount, ReasonRequest, RequestModel, Text
from ingest.http.responses import decision_response
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.merges.service import Merges
from shared.api import accounts as api
from shared.api.queues import DecisionResponse
from shared.http import DocumentedRoute

CODE_LENGTH_MAX = 64
Code = Annotated[Text, Field(max_length=CODE_LENGTH_MAX)]


class MergeRequest(RequestModel):
    """The code of the account that becomes part of the caller's."""

    code: Code


class OperatorMergeRequest(RequestModel):
    """The participant whose account remains, and why."""

    into: NameOrAccount
    reason: Text


def merges_router(merges: Merges, auth: Authenticator) -> APIRouter:
    """The routes of participants about their own accounts, and of admins about all."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    Holder: TypeAlias = Annotated[Caller, Depends(auth.participant("account"))]

    @router.get("/me/merges")
    async def listed(caller: Holder) -> api.Merges:
        """The accounts that are part of the current one."""
        return api.Merges(items=await merges.list_merges(caller.id))

    @router.post("/me/merges/code", status_code=201)
    async def offer(caller: Holder) -> api.MergeCode:
        """Create a code that merges the current account into the one in which it is entered."""
        return await merges.offer(caller)

    @router.post("/me/merges/preview")
    async def preview(body: MergeRequest, caller: Holder) -> api.MergePreview:
        """The account that a code would merge into the current one."""
        return await merges.preview(body.code, caller)

    @router.post("/me/merges", status_code=201)
    async def accept(body: MergeRequest, caller: Holder) -> api.Merge:
        """Merge the account that created a code into the current one."""
        return await merges.accept(body.code, caller)

    @router.delete("/me/merges/{name}")
    async def undo(name: NameOrAccount, caller: Holder) -> DecisionResponse:
        """Undo a merge within seven days; each account has again what it had before."""
        return decision_response(await merges.undo(name, caller))

    Admin: TypeAlias = Annotated[str, Depends(auth.operator("admin"))]

    @router.post("/admin/participants/{name}/merge", status_code=201)
    async def merge(name: NameOrAccount, body: OperatorMergeRequest, actor: Admin) -> api.Merge:
        """Merge the account of a participant into that of another one."""
        return await merges.merge(name, body.into, body.reason, actor)

    @router.delete("/admin/participants/{name}/merge")
    async def separate(name: NameOrAccount, body: ReasonRequest, actor: Admin) -> DecisionResponse:
        """Undo the merge of a participant's account within seven days."""
        result = await merges.undo_as_operator(name, body.reason, actor)
        return decision_response(result)

    return router
