"""Submissions: submitting, cancelling, withdrawing, appeals and notes."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, NamedTuple, TypeAlias

from fastapi import APIRouter, Depends, Form, Request, Response, UploadFile
from pydantic import Field

from ingest.access.feed import AccessFeed
from ingest.access.rules import Caller, check_problem
from ingest.decisions import AggregateCommand, DecisionResult, Decisions
from ingest.http.middleware import idempotency_key
from ingest.http.requests import (
    APPEAL_LENGTH_MAX,
    PRINTABLE,
    TEXT_LENGTH_MAX,
    Authenticator,
    FormModel,
    NoteText,
    NumberInPath,
    RequestModel,
    Tag,
    decision_response,
)
from ingest.moderation import rules as moderation
from ingest.ports import Note, Ports
from ingest.quotas.routes import quota_headers
from ingest.submissions import rules
from ingest.submissions.intake import Intake, Upload
from shared import events, subjects
from shared.api.queues import DecisionResponse, IntakeStatus
from shared.api.submissions import (
    CancelledSubmission,
    SubmissionNote,
    SubmissionReceipts,
    SubmissionRequest,
    WithdrawnSubmission,
)
from shared.blobs import BlobNotFound, describe_blob
from shared.errors import Failed, Refused
from shared.event_log import RecordedEvent
from shared.http import DocumentedRoute
from shared.problems.submission_file import parse_precision

TEXT_MEDIA = "text/plain"
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


class SubmissionHistory(NamedTuple):
    """A submission with its events."""

    id: str
    received: events.SubmissionReceived
    history: Sequence[RecordedEvent]

    @property
    def facts(self) -> list[events.Fact]:
        """Return the facts of its events."""
        return [event.fact for event in self.history]

    @property
    def account(self) -> str:
        """Return its owner."""
        return self.received.account


async def load_submission(ports: Ports, number: int) -> SubmissionHistory:
    """Load the submission with this number.

    Raises `Refused` (`unknown_submission`) and `Failed`.
    """
    submission_id = await ports.lookups.submission(number)
    history = await ports.log.history(subjects.submission(submission_id))
    if not history or history[0].seq != number:
        raise Failed(f"the read models and the log disagree on submission {number}: try again")
    first = history[0].fact
    assert isinstance(first, events.SubmissionReceived), (
        "a number is the sequence of the first event"
    )
    return SubmissionHistory(submission_id, first, history)


@dataclass(frozen=True)
class Submissions:
    """The commands about accepted submissions."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed

    async def cancel(self, number: int, caller: Caller, reason: str) -> DecisionResult:
        """Cancel one's own submission; operators may cancel any. Raises `Refused` and `Failed`."""
        return await self._cancel(await self._load_managed(number, caller), caller.actor, reason)

    async def withdraw(self, number: int, caller: Caller, reason: str) -> DecisionResult:
        """Withdraw one's own submission for ever, and cancel it; operators may withdraw any.

        Raises `Refused` (`under_review` while it is held) and `Failed`.
        """
        return await self._withdraw(await self._load_managed(number, caller), caller.actor, reason)

    async def withdraw_as_operator(self, operator: str, number: int, reason: str) -> DecisionResult:
        """Withdraw a submission for an operator. Raises `Refused` and `Failed`."""
        return await self._withdraw(await load_submission(self.ports, number), operator, reason)

    async def appeal(self, number: int, caller: Caller, text: str) -> DecisionResult:
        """Appeal against a decision about one's own submission. Raises `Refused` and `Failed`."""
        submission = await self.load_own(number, caller)
        data = text.encode()
        command = events.AppealFiled(text=describe_blob(data, TEXT_MEDIA))
        return await self.decisions.make_all(
            [moderation_command(submission, command)],
            f"account:{submission.account}",
            partial(self.ports.blobs.put, data, TEXT_MEDIA),
        )

    async def write_note(self, number: int, caller: Caller, note: Note) -> None:
        """Replace the private note on one's own submission. Raises `Refused` and `Failed`."""
        submission = await self.load_own(number, caller)
        await self.ports.people.say_note(submission.account, submission.id, note)

    async def repeat_request(self, number: int, caller: Caller, mode: str) -> SubmissionRequest:
        """Return the request that submits one's own submission again, in this mode.

        Raises `Refused` and `Failed`.
        """
        received = (await self.load_own(number, caller)).received
        try:
            source = await self.ports.blobs.get(received.source.digest)
        except BlobNotFound as missing:
            message = f"the source of submission {number} is no longer stored: send the file again"
            raise Refused("not_found", message, "number") from missing
        return SubmissionRequest(
            name=received.name,
            source=source,
            problem=received.problem,
            mode=mode,
            gpus=(received.gpu,),
            runner=received.requires.runner,
            **(rules.run_options(received) if mode == received.mode else {}),
        )

    async def load_own(self, number: int, caller: Caller) -> SubmissionHistory:
        """Load the caller's own submission. Raises `Refused` (such as `not_yours`) and `Failed`.

        Submissions on a leaderboard that the caller may not see do not exist for them.
        """
        submission = await load_submission(self.ports, number)
        if submission.account == caller.account:
            check_problem(caller, submission.received.problem)
            return submission
        try:
            self.feed.now().check_sees(caller, submission.received.problem)
        except Refused as refused:
            message = f"there is no submission {number}"
            raise Refused("unknown_submission", message, "number") from refused
        raise Refused("not_yours", f"submission {number} belongs to another participant", "number")

    async def _load_managed(self, number: int, caller: Caller) -> SubmissionHistory:
        if caller.may("admin:submissions"):
            return await load_submission(self.ports, number)
        return await self.load_own(number, caller)

    async def _withdraw(
        self, submission: SubmissionHistory, actor: str, reason: str
    ) -> DecisionResult:
        command = moderation_command(submission, events.SubmissionWithdrawn(reason=reason))
        # Decide first, so that a refused withdrawal cancels nothing.
        await self.decisions.preview([command])
        if not rules.submissions.fold(submission.facts).is_over:
            with contextlib.suppress(Refused):
                await self._cancel(submission, actor, reason)
        return await self.decisions.make_all([command], actor)

    async def _cancel(
        self, submission: SubmissionHistory, actor: str, reason: str
    ) -> DecisionResult:
        command = events.SubmissionCancelRequested(reason=reason)
        agg = subjects.submission(submission.id)
        return await self.decisions.make(agg, rules.submissions, command, actor)


def moderation_command(
    submission: SubmissionHistory, command: moderation.ModerationCommand
) -> AggregateCommand:
    """Return a command that is decided on a submission's own history and its moderation's."""
    decider = moderation.moderation
    moderation_decider = replace(decider, initial=decider.fold(submission.facts))
    return AggregateCommand(subjects.moderation(submission.id), moderation_decider, command)


class CancelRequest(RequestModel):
    """Why a submission is cancelled; optional."""

    reason: Annotated[str, Field(max_length=TEXT_LENGTH_MAX, pattern=f"^{PRINTABLE}*$")] = ""


class AppealRequest(RequestModel):
    """The text of an appeal."""

    text: Annotated[str, Field(min_length=1, max_length=APPEAL_LENGTH_MAX)]


class NoteRequest(RequestModel):
    """A private note on a submission; empty fields remove it."""

    note: NoteText = ""
    tag: Tag = ""

    def to_note(self) -> Note:
        """Return the note, without empty fields."""
        return Note(self.note or None, self.tag or None)


class SubmissionForm(FormModel):
    """The form of a submission."""

    file: UploadFile
    problem: Annotated[str, Field(min_length=1)]
    mode: str = "ranked"
    gpu: list[str] | None = None
    case: Annotated[int, Field(ge=0, description=CASE)] = 0
    note: NoteText = ""
    tag: Tag = ""
    runner: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,64}$", description=RUNNER)] = ""
    ncu_kernel_name: Annotated[str, Field(description=NCU_NAME)] = ""
    ncu_kernel_name_base: Annotated[str, Field(description=NCU_NAME_BASE)] = ""
    ncu_launch_count: Annotated[int, Field(ge=0, description=NCU_LAUNCHES)] = 0
    waits_for_agent: Annotated[bool, Field(description=WAITS)] = True
    precision: Annotated[str, Field(description=PRECISION)] = ""


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
        """Submit one source file; the response comes after it is in the log."""
        submission = SubmissionRequest(
            name=form.file.filename or "submission.py",
            source=await form.file.read(),
            problem=form.problem,
            mode=form.mode,
            gpus=tuple(gpu for gpu in form.gpu or () if gpu),
            case=form.case,
            note=form.note,
            tag=form.tag,
            runner=form.runner,
            ncu_kernel_name=form.ncu_kernel_name,
            ncu_kernel_name_base=form.ncu_kernel_name_base,
            ncu_launch_count=form.ncu_launch_count,
            waits_for_agent=form.waits_for_agent,
            precision=parse_precision(form.precision) if form.precision else 0.0,
        )
        via = "discord" if caller.kind == "discord" else "http"
        receipts = await intake.submit(Upload(caller, submission, via, idempotency_key(request)))
        response.headers.update(rate_limit_headers(receipts))
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
        number: NumberInPath, request: Request, body: CancelRequest | None = None
    ) -> CancelledSubmission:
        """Cancel a submission, as its owner or an operator."""
        caller = await auth.participant_or_staff(request, "submit", "admin:submissions")
        result = await submissions.cancel(number, caller, body.reason if body else "")
        return CancelledSubmission(
            number=number, state="cancelling", event=result.event, seq=result.seq
        )

    @router.delete("/submissions/{number}")
    async def withdraw(
        number: NumberInPath, request: Request, body: CancelRequest | None = None
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
    async def appeal(
        number: NumberInPath, body: AppealRequest, caller: Submitter
    ) -> DecisionResponse:
        """Appeal against a decision about one's own submission."""
        return decision_response(await submissions.appeal(number, caller, body.text))

    @router.put("/submissions/{number}/note")
    async def note(number: NumberInPath, body: NoteRequest, caller: Submitter) -> SubmissionNote:
        """Replace the private note on one's own submission."""
        new_note = body.to_note()
        await submissions.write_note(number, caller, new_note)
        return SubmissionNote(number=number, note=new_note.note, tag=new_note.tag)


def rate_limit_headers(receipts: SubmissionReceipts) -> dict[str, str]:
    """Return headers with the tightest quota, and whether this repeats an earlier response."""
    replay_headers = {"Idempotent-Replayed": "true"} if receipts.replayed else {}
    balances = [receipt.quota for receipt in receipts.submissions if receipt.quota]
    return replay_headers | quota_headers(balances)
