"""Submissions from outside: taken in, cancelled, appealed for; and what quota is left."""

import re
from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Query, Request, UploadFile
from pydantic import Field

from ingest.domain.quotas import Balance
from ingest.http.bodies import (
    APPEAL_LENGTH_MAX,
    PRINTABLE,
    TEXT_LENGTH_MAX,
    Body,
    NumberInPath,
    shown,
)
from ingest.http.operators import Door
from ingest.http.who import Participant, participant
from ingest.service import Ingest
from ingest.service.intake import Intake, Receipt, Upload
from ingest.service.participants import Participants
from shared.errors import Refused

KEY = re.compile(r"[!-~]{1,255}\Z")


class WhyCancel(Body):
    """Why a submission is to end; nobody need say."""

    reason: Annotated[str, Field(max_length=TEXT_LENGTH_MAX, pattern=f"^{PRINTABLE}*$")] = ""


class Plea(Body):
    """What a participant says against a decision."""

    text: Annotated[str, Field(min_length=1, max_length=APPEAL_LENGTH_MAX)]


def submissions(app: FastAPI, ingest: Ingest, door: Door) -> None:
    """The routes of participants."""
    _submit(app, ingest.intake)
    _cancel(app, ingest.participants, door)
    _others(app, ingest.participants)


def _submit(app: FastAPI, intake: Intake) -> None:
    @app.post("/v1/submissions", status_code=202)
    async def submit(
        file: Annotated[UploadFile, File()],
        problem: Annotated[str, Form()],
        request: Request,
        mode: Annotated[str, Form()] = "ranked",
        gpu: Annotated[list[str] | None, Form()] = None,
    ) -> dict[str, Any]:
        """Take one source file in; the answer comes after it is in the log."""
        key = request.headers.get("idempotency-key")
        if key is not None and not KEY.match(key):
            raise Refused("bad_idempotency_key", "Idempotency-Key: 1 to 255 visible ASCII", None)
        upload = Upload(
            participant=participant(request.headers.get("warpboard-participant")),
            problem=problem,
            mode=mode,
            gpus=[one for one in gpu or [] if one],
            name=file.filename or "submission.py",
            source=await file.read(),
            via="http",
            idempotency_key=key,
        )
        receipts = await intake.submit(upload)
        return {
            "submissions": [_receipt(receipt) for receipt in receipts],
            "problem_version": receipts[0].problem_number,
            "is_replay": all(receipt.is_replay for receipt in receipts),
        }

    @app.get("/v1/intake")
    async def state() -> dict[str, Any]:
        """Why no submission is taken in now; null if they are."""
        return {"paused": await intake.paused()}


def _cancel(app: FastAPI, participants: Participants, door: Door) -> None:
    @app.post("/v1/submissions/{number}/cancel", status_code=202)
    async def cancel(
        number: NumberInPath, request: Request, body: WhyCancel | None = None
    ) -> dict[str, Any]:
        """Let a submission end without a verdict: its owner may, or an operator."""
        reason = body.reason if body else ""
        if door.is_tried(request):
            made = await participants.cancel_for(door(request), number, reason)
        else:
            name = participant(request.headers.get("warpboard-participant"))
            made = await participants.cancel(number, name, reason)
        return {"number": number, "state": "cancelling"} | shown(made)


def _others(app: FastAPI, participants: Participants) -> None:
    @app.post("/v1/submissions/{number}/appeal", status_code=201)
    async def appeal(number: NumberInPath, body: Plea, who: Participant) -> dict[str, Any]:
        """Ask to look again at what was decided about one's own submission."""
        return shown(await participants.appeal(number, who, body.text))

    @app.get("/v1/quota")
    async def quota(
        who: Participant,
        problem: Annotated[str, Query()] = "",
        gpu: Annotated[str | None, Query()] = None,
    ) -> dict[str, Any]:
        """What is left of one's quotas; of one leaderboard's with `problem`, and `gpu`."""
        found = await participants.balances(who, problem.lower(), gpu)
        return {"items": [_balance(one) for one in found]}


def _receipt(receipt: Receipt) -> dict[str, Any]:
    path = f"/v1/submissions/{receipt.number}"
    return {
        "number": receipt.number,
        "id": receipt.id,
        "gpu": receipt.gpu,
        "state": "received",
        "deadline_at": receipt.deadline_at.isoformat(),
        "quota": _balance(receipt.quota) if receipt.quota else None,
        "links": {"self": path, "cancel": f"{path}/cancel"},
    }


def _balance(left: Balance) -> dict[str, Any]:
    return {
        "bucket": left.bucket,
        "limit": left.limit,
        "used": left.used,
        "remaining": left.remaining,
        "window_s": left.window_s,
        "reset_at": left.reset_at.isoformat(),
    }
