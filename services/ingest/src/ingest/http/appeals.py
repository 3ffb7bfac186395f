"""Appeals against bans: filed by who is banned, answered by operators."""

from typing import Annotated

from fastapi import APIRouter, Depends

from ingest.domain.callers import Caller
from ingest.http import shapes
from ingest.http.bodies import NameInPath, shown
from ingest.http.moderation import AppealAnswer
from ingest.http.submissions import Plea
from ingest.http.who import Gate
from ingest.service import Ingest
from shared.answers import Documented


def appeals(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes; the first is open to who may do nothing else."""
    router = APIRouter(prefix="/v1", route_class=Documented)
    operator = gate.operator("admin:participants")

    @router.post("/me/appeal", status_code=201)
    async def appeal(
        body: Plea, caller: Annotated[Caller, Depends(gate.participant())]
    ) -> shapes.Made:
        """Ask to look again at one's own ban, once."""
        return shown(await ingest.bans.appeal(caller, body.text))

    @router.post("/admin/participants/{name}/decide-appeal")
    async def decide(
        name: NameInPath, body: AppealAnswer, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Answer the appeal of who is banned; an accepted one ends the ban."""
        return shown(await ingest.bans.answer(name, body.is_accepted, body.reason, actor))

    return router
