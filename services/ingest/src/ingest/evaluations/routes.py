"""Routes of evaluations: requesting and cancelling them, and submitting their items."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from harness.vocabulary import SubmissionMode
from ingest.evaluations.service import EvaluationCommands, NewEvaluation
from ingest.http.bodies import document_json, read_json
from ingest.http.middleware import idempotency_key
from ingest.http.requests import TEXT_LENGTH_MAX, Id, RequestModel
from ingest.http.responses import decision_response, receipt_headers
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from shared.api.evaluations import Evaluation, EvaluationRequest
from shared.api.fields import PRINTABLE
from shared.api.queues import DecisionResponse
from shared.api.submissions import SubmissionReceipts, SubmissionRequest
from shared.http import DocumentedRoute

ITEM = r"^(best|[0-9]{1,4})$"


class EvaluationCancelRequest(RequestModel):
    """Why an evaluation is cancelled; optional."""

    reason: Annotated[str, Field(max_length=TEXT_LENGTH_MAX, pattern=f"^{PRINTABLE}*$")] = ""


class ItemSubmission(RequestModel):
    """In which mode an item is submitted."""

    mode: SubmissionMode = "ranked"


def evaluations_router(evaluations: EvaluationCommands, auth: Authenticator) -> APIRouter:
    """The routes that write; ranker answers the reads."""
    router = APIRouter(prefix="/v1/evaluations", route_class=DocumentedRoute)

    @router.post("", status_code=202, openapi_extra=document_json(EvaluationRequest))
    async def request_evaluation(
        request: Request,
        caller: Annotated[Caller, Depends(auth.participant("submit"))],
    ) -> Evaluation:
        """Evaluate many sources, in the background and without a leaderboard.

        The response comes after it is in the log. Items whose verdict is known are `cached` and
        have their result at once. Evaluations run when no person waits.
        """
        body = await read_json(request, EvaluationRequest)
        shared_request = SubmissionRequest(
            name="",
            source=b"",
            problem=body.problem,
            mode=body.mode,
            gpus=(body.gpu,) if body.gpu else (),
            precision=body.precision,
        )
        key = idempotency_key(request)
        new = NewEvaluation(caller, shared_request, body.items, body.use_cache, key)
        return await evaluations.request(new)

    @router.post("/{evaluation}/cancel", status_code=202)
    async def cancel_evaluation(
        evaluation: Id, request: Request, body: EvaluationCancelRequest | None = None
    ) -> DecisionResponse:
        """Cancel an evaluation; its results stay, and items without one get none."""
        caller = await auth.participant_or_staff(request, "submit", "admin:submissions")
        reason = body.reason if body else ""
        return decision_response(await evaluations.cancel(evaluation, caller, reason))

    @router.post("/{evaluation}/items/{item}/submit", status_code=202)
    async def submit_item(  # noqa: PLR0913, PLR0917  (the parts of a request)
        evaluation: Id,
        item: Annotated[str, Field(pattern=ITEM)],
        request: Request,
        response: Response,
        caller: Annotated[Caller, Depends(auth.participant("submit"))],
        body: ItemSubmission | None = None,
    ) -> SubmissionReceipts:
        """Submit an item of one's own evaluation, by default as a ranked submission.

        `item` is its place, as its result names it, or `best`: of those that passed, the one with
        the highest lower bound of its speed-up.
        """
        mode = body.mode if body else "ranked"
        key = idempotency_key(request)
        receipts = await evaluations.submit_item(evaluation, item, caller, mode, key)
        response.headers.update(receipt_headers(receipts))
        return receipts

    return router
