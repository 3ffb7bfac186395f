"""Submissions from outside: taken in, cancelled, appealed for; and what quota is left."""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import Depends, FastAPI, File, Form, Query, Request, Response, UploadFile
from pydantic import Field

from ingest.domain.callers import Caller
from ingest.domain.quotas import Balance
from ingest.http import shapes
from ingest.http.bodies import (
    APPEAL_LENGTH_MAX,
    PRINTABLE,
    TEXT_LENGTH_MAX,
    Body,
    NoteText,
    NumberInPath,
    Tag,
    shown,
)
from ingest.http.repeats import idempotency_key
from ingest.http.who import Gate
from ingest.service import Ingest
from ingest.service.batches import Receipt, Upload
from ingest.service.participants import Participants
from ingest.service.ports import Note, QueueSeen, Span
from shared.clock import now
from shared.errors import Refused
from shared.http import SAID

FIELDS = frozenset(("file", "problem", "mode", "gpu", "case", "note", "tag"))

CASE = "The only timed case to profile, from 1 on; 0 is every one."


class WhyCancel(Body):
    """Why a submission is to end; nobody need say."""

    reason: Annotated[str, Field(max_length=TEXT_LENGTH_MAX, pattern=f"^{PRINTABLE}*$")] = ""


class Plea(Body):
    """What a participant says against a decision."""

    text: Annotated[str, Field(min_length=1, max_length=APPEAL_LENGTH_MAX)]


class Remark(Body):
    """What a participant says of a submission for themselves; nothing said is nothing kept."""

    note: NoteText = ""
    tag: Tag = ""


class Wish(NamedTuple):
    """What a file is submitted for."""

    problem: str
    mode: str
    gpus: list[str]
    note: Note
    case: int = 0


async def _note(note: Annotated[NoteText, Form()] = "", tag: Annotated[Tag, Form()] = "") -> Note:
    return Note(note or None, tag or None)


async def _work(
    mode: Annotated[str, Form()] = "ranked",
    case: Annotated[int, Form(ge=0, description=CASE)] = 0,
) -> tuple[str, int]:
    return mode, case


async def _wish(
    request: Request,
    note: Annotated[Note, Depends(_note)],
    work: Annotated[tuple[str, int], Depends(_work)],
    problem: Annotated[str, Form(min_length=1)],
    gpu: Annotated[list[str] | None, Form()] = None,
) -> Wish:
    strange = sorted(set(await request.form()) - FIELDS)
    if strange:
        what = f"{strange[0]} is no field here: {', '.join(sorted(FIELDS))} are"
        raise Refused("invalid_request", what, strange[0])
    mode, case = work
    return Wish(problem, mode, [one for one in gpu or [] if one], note, case)


def submissions(app: FastAPI, ingest: Ingest, gate: Gate) -> None:
    """The routes of participants."""
    _submit(app, ingest, gate)
    _end(app, ingest.participants, gate)
    _others(app, ingest.participants, gate)


async def submitted(ingest: Ingest, upload: Upload, request: Request) -> list[Receipt]:
    """What was taken in; whose quota is used up is told so by headers, too.

    Errors: Refused; Failed.
    """
    try:
        return await ingest.intake.submit(upload)
    except Refused as refused:
        if refused.code == "quota_exceeded":
            found = await ingest.participants.balances(upload.caller, "", None)
            used_up = [one for one in found if not one.remaining]
            setattr(request.state, SAID, _limit_headers(used_up))
        raise


def _submit(app: FastAPI, ingest: Ingest, gate: Gate) -> None:
    intake = ingest.intake

    @app.post("/v1/submissions", status_code=202)
    async def submit(
        caller: Annotated[Caller, Depends(gate.participant())],
        file: Annotated[UploadFile, File()],
        wish: Annotated[Wish, Depends(_wish)],
        request: Request,
        response: Response,
    ) -> shapes.Received:
        """Take one source file in; the answer comes after it is in the log."""
        upload = Upload(
            caller=caller,
            problem=wish.problem,
            mode=wish.mode,
            gpus=wish.gpus,
            name=file.filename or "submission.py",
            source=await file.read(),
            via="discord" if caller.kind == "discord" else "http",
            idempotency_key=idempotency_key(request),
            note=wish.note,
            case=wish.case,
        )
        receipts = await submitted(ingest, upload, request)
        response.headers.update(limits(receipts))
        return {
            "submissions": [_receipt(receipt) for receipt in receipts],
            "problem_version": receipts[0].problem_number,
            "replayed": all(receipt.is_replay for receipt in receipts),
        }

    @app.get("/v1/intake")
    async def state() -> shapes.Intake:
        """Why no submission is taken in now; null if they are."""
        return {"paused": await intake.paused()}


def _end(app: FastAPI, participants: Participants, gate: Gate) -> None:
    @app.post("/v1/submissions/{number}/cancel", status_code=202)
    async def cancel(
        number: NumberInPath, request: Request, body: WhyCancel | None = None
    ) -> shapes.Cancelling:
        """Let a submission end without a verdict: its owner may, or an operator."""
        reason = body.reason if body else ""
        caller = await gate.either(request, "submit", "admin:submissions")
        made = await participants.cancel(number, caller, reason)
        return {"number": number, "state": "cancelling", **shown(made)}

    @app.delete("/v1/submissions/{number}")
    async def withdraw(
        number: NumberInPath, request: Request, body: WhyCancel | None = None
    ) -> shapes.Withdrawn:
        """Take one's own submission off its leaderboard for ever; what goes on is cancelled.

        Its history stays, and what it cost does not come back.
        """
        caller = await gate.either(request, "delete:own", "admin:submissions")
        reason = body.reason if body else ""
        made = await participants.withdraw(number, caller, reason)
        return {"number": number, "state": "withdrawn", **shown(made)}


def _others(app: FastAPI, participants: Participants, gate: Gate) -> None:
    @app.post("/v1/submissions/{number}/appeal", status_code=201)
    async def appeal(
        number: NumberInPath,
        body: Plea,
        who: Annotated[Caller, Depends(gate.participant("submit"))],
    ) -> shapes.Made:
        """Ask to look again at what was decided about one's own submission."""
        return shown(await participants.appeal(number, who, body.text))

    @app.put("/v1/submissions/{number}/note")
    async def note(
        number: NumberInPath,
        body: Remark,
        who: Annotated[Caller, Depends(gate.participant("submit"))],
    ) -> shapes.Noted:
        """Note something on one's own submission, for oneself, instead of what was noted."""
        said = Note(body.note or None, body.tag or None)
        await participants.say(number, who, said)
        return {"number": number, "note": said.note, "tag": said.tag}

    @app.get("/v1/quota")
    async def quota(
        response: Response,
        who: Annotated[Caller, Depends(gate.participant("read:own"))],
        problem: Annotated[str, Query()] = "",
        gpu: Annotated[str | None, Query()] = None,
    ) -> shapes.Balances:
        """What is left of one's quotas; of one leaderboard's with `problem`, and `gpu`."""
        found = await participants.balances(who, problem.lower(), gpu)
        response.headers.update(_limit_headers(found))
        return {"items": [_balance(one) for one in found]}


def limits(receipts: Sequence[Receipt]) -> dict[str, str]:
    """The tightest quota, and whether this was answered before, as headers."""
    told = {"Idempotent-Replayed": "true"} if all(one.is_replay for one in receipts) else {}
    return told | _limit_headers([one.quota for one in receipts if one.quota])


def _limit_headers(found: Sequence[Balance]) -> dict[str, str]:
    if not found:
        return {}
    tightest = min(found, key=lambda one: one.remaining)
    reset_s = max(0, math.ceil((tightest.reset_at - now()).total_seconds()))
    return {
        "RateLimit-Limit": str(tightest.limit),
        "RateLimit-Remaining": str(tightest.remaining),
        "RateLimit-Reset": str(reset_s),
    }


def _receipt(receipt: Receipt) -> shapes.Receipt:
    path = f"/v1/submissions/{receipt.number}"
    return {
        "number": receipt.number,
        "id": receipt.id,
        "gpu": receipt.gpu,
        "state": "received",
        "deadline_at": receipt.deadline_at.isoformat(),
        "queue": _queue(receipt.queue) if receipt.queue else None,
        "quota": _balance(receipt.quota) if receipt.quota else None,
        "links": {"self": path, "events": f"{path}/events", "cancel": f"{path}/cancel"},
    }


def _queue(seen: QueueSeen) -> shapes.InFront:
    return {
        "gpu": seen.gpu,
        "state": seen.state,
        "waiting": seen.waiting,
        "wait_s": _span(seen.wait_s),
        "run_s": _span(seen.run_s),
        "agents_online": seen.agents_online,
        "agents_busy": seen.agents_busy,
        "reason": seen.reason,
        "as_of": seen.as_of,
    }


def _span(found: Span | None) -> shapes.Span | None:
    return None if found is None else {"p50": found.p50, "p90": found.p90}


def _balance(left: Balance) -> shapes.Balance:
    return {
        "bucket": left.bucket,
        "limit": left.limit,
        "used": left.used,
        "remaining": left.remaining,
        "window_s": left.window_s,
        "reset_at": left.reset_at.isoformat(),
    }
