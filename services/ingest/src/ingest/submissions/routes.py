"""Routes of submissions: submitting, cancelling, withdrawing, appeals and notes."""

from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends, Form, Request, Response, UploadFile
from pydantic import Field

from ingest.http.middleware import idempotency_key
from ingest.http.requests import (
    TEXT_LENGTH_MAX,
    FormModel,
    Number,
    RequestModel,
    SubmissionNoteText,
    Tag,
)
from ingest.http.responses import decision_response, receipt_headers
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.moderation.service import AppealRequest
from ingest.submissions.intake import Intake
from ingest.submissions.resolution import Upload
from ingest.submissions.service import NoteRequest, Submissions
from shared.api.fields import PRINTABLE
from shared.api.queues import DecisionResponse, IntakeStatus
from shared.api.submissions import (
    CancelledSubmission,
    SubmissionNote,
    SubmissionReceipts,
    SubmissionRequest,
    WithdrawnSubmission,
)
from shared.http import DocumentedRoute
from shared.licences import OwnLicence
from shared.problems.submission_file import NUMBER_MAX, parse_precision
from shared.source_files import SourceFile

RUNNER = "The launcher that starts an agent for this submission; empty means any agent."
CASE = "The timed case to profile, counted from 1; 0 means all."
WAITS = "False refuses the submission with `no_agent` if nobody serves a GPU type now."
NCU_NAME = "The kernels that ncu captures, by name, or by an expression after `regex:`."
NCU_NAME_BASE = "What is compared with the name: `function` (default), `demangled` or `mangled`."
NCU_LAUNCHES = "How many kernels ncu captures for each case; 0 means 20."
PRECISION = (
    "The half width of the 95 % interval at which a benchmark may end, such as `2%` or `0.02`; "
    "from 0.5 % to 20 %, by default 5 %. Ranked runs have a fixed precision."
)
PARENT = "The number of the submission that this one is derived from; 0: that of the file, or none."
ENTRY = "The file that defines the kernel; its suffix says in which language it is."
FILES = (
    "The files beside it, up to 15 where the problem allows it. Their names are paths relative to "
    "it, such as `helper.cu` or `lib/tile.cuh`."
)
NEEDS_LICENCE = (
    "True refuses a ranked submission with `licence_missing` if neither it nor the account has a "
    "licence; false accepts it, and the source is in no release."
)
LICENCE = "The licence of the source in releases, `none` for none; empty: that of the account."


class CancelRequest(RequestModel):
    """Why a submission is cancelled; optional."""

    reason: Annotated[str, Field(max_length=TEXT_LENGTH_MAX, pattern=f"^{PRINTABLE}*$")] = ""


class SubmissionForm(FormModel):
    """The form of a submission."""

    file: Annotated[UploadFile, Field(description=ENTRY)]
    files: Annotated[list[UploadFile] | None, Field(description=FILES)] = None
    problem: Annotated[str, Field(min_length=1)]
    mode: str = "ranked"
    gpu: list[str] | None = None
    case: Annotated[int, Field(ge=0, description=CASE)] = 0
    note: SubmissionNoteText = ""
    tag: Tag = ""
    runner: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,64}$", description=RUNNER)] = ""
    ncu_kernel_name: Annotated[str, Field(description=NCU_NAME)] = ""
    ncu_kernel_name_base: Annotated[str, Field(description=NCU_NAME_BASE)] = ""
    ncu_launch_count: Annotated[int, Field(ge=0, description=NCU_LAUNCHES)] = 0
    waits_for_agent: Annotated[bool, Field(description=WAITS)] = True
    precision: Annotated[str, Field(description=PRECISION)] = ""
    licence: Annotated[OwnLicence | Literal[""], Field(description=LICENCE)] = ""
    parent: Annotated[int, Field(ge=0, le=NUMBER_MAX, description=PARENT)] = 0
    needs_licence: Annotated[bool, Field(description=NEEDS_LICENCE)] = False


def submissions_router(intake: Intake, submissions: Submissions, auth: Authenticator) -> APIRouter:
    """The routes of participants."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)

    @router.post("/submissions", status_code=202)
    async def submit(
        caller: Annotated[Caller, Depends(auth.participant())],
        form: Annotated[SubmissionForm, Form(media_type="multipart/form-data")],
        request: Request,
        response: Response,
    ) -> SubmissionReceipts:
        """Submit a source file, or several where the problem allows it.

        The response comes after they are in the log.
        """
        submission = SubmissionRequest(
            name=form.file.filename or "submission.py",
            source=await form.file.read(),
            others=tuple(
                [SourceFile(it.filename or "", await it.read()) for it in form.files or ()]
            ),
            gpus=tuple(gpu for gpu in form.gpu or () if gpu),
            precision=parse_precision(form.precision) if form.precision else 0.0,
            **form.model_dump(exclude={"file", "files", "gpu", "precision"}),
        )
        via = "discord" if caller.kind == "discord" else "http"
        receipts = await intake.submit(Upload(caller, submission, via, idempotency_key(request)))
        response.headers.update(receipt_headers(receipts))
        return receipts

    @router.get("/intake")
    async def state() -> IntakeStatus:
        """Why no submissions are accepted now; null if they are."""
        return IntakeStatus(paused=await intake.paused())

    _follow_up_routes(router, submissions, auth)
    return router


def _follow_up_routes(router: APIRouter, submissions: Submissions, auth: Authenticator) -> None:
    Submitter: TypeAlias = Annotated[Caller, Depends(auth.participant("submit"))]

    @router.post("/submissions/{number}/cancel", status_code=202)
    async def cancel(
        number: Number, request: Request, body: CancelRequest | None = None
    ) -> CancelledSubmission:
        """Cancel a submission, as its owner or an operator."""
        caller = await auth.participant_or_staff(request, "submit", "admin:submissions")
        result = await submissions.cancel(number, caller, body.reason if body else "")
        return CancelledSubmission(
            number=number, state="cancelling", event=result.event, seq=result.seq
        )

    @router.delete("/submissions/{number}")
    async def withdraw(
        number: Number, request: Request, body: CancelRequest | None = None
    ) -> WithdrawnSubmission:
        """Withdraw a submission for ever; one that still runs is cancelled.

        Its history stays, and its quota is not refunded.
        """
        caller = await auth.participant_or_staff(request, "delete:own", "admin:submissions")
        result = await submissions.withdraw(number, caller, body.reason if body else "")
        return WithdrawnSubmission(
            number=number, state="withdrawn", event=result.event, seq=result.seq
        )

    @router.post("/submissions/{number}/appeal", status_code=201)
    async def appeal(number: Number, body: AppealRequest, caller: Submitter) -> DecisionResponse:
        """Appeal against a decision about one's own submission."""
        return decision_response(await submissions.appeal(number, caller, body.text))

    @router.put("/submissions/{number}/note")
    async def note(number: Number, body: NoteRequest, caller: Submitter) -> SubmissionNote:
        """Replace the private note on one's own submission."""
        new_note = body.to_note()
        await submissions.write_note(number, caller, new_note)
        return SubmissionNote(number=number, note=new_note.note, tag=new_note.tag)
