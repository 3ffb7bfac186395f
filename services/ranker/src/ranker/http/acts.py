"""What operators did: every act is an event, with who and why, and staff alone reads them."""

from collections.abc import Sequence
from typing import Annotated, Protocol

import msgspec
from fastapi import FastAPI, Query

from ranker.http.access import Asker
from ranker.http.answers import NUMBER_MAX, Limit
from ranker.http.shapes import deciding as shapes
from ranker.service import News
from shared.errors import Refused
from shared.event_log import Recorded
from shared.reader import Reader

OPERATOR = "operator:"
# What operators alone may do, whether they show the platform's token or one of their own.
ACTS = frozenset(
    (
        *("IntakePaused", "IntakeResumed", "PoolPaused", "PoolResumed", "OperatorActed"),
        *("EventSkipped", "DeadLetterRedriven", "QuotaLimitSet", "CanaryChosen", "CanaryRemoved"),
        *("AgentEnrolled", "AgentRevoked", "AgentCordoned", "AgentDrained", "AgentReleased"),
        *("AccountBanned", "AccountUnbanned", "BanAppealDecided", "RoleGranted", "RoleRevoked"),
        *("SubmissionHeld", "SubmissionReleased", "SubmissionDisqualified", "SubmissionRestored"),
        *("AppealDecided", "RejudgeRequested", "RejudgeApplied", "RejudgeDiscarded"),
        "DuelRequested",
        *("LeaderboardChanged", "LeaderboardArchived", "InviteIssued", "InviteRevoked"),
    )
)
# Of what an act says these are long, or no reader's matter.
LEFT_OUT = ("reason", "items", "first", "second", "token_hash", "code_hash", "sign_key")

Before = Annotated[int, Query(ge=1, le=NUMBER_MAX)]


class Acts(Protocol):
    """Where acts are found."""

    async def spoken(self, before: int) -> tuple[int, Sequence[Recorded]]:
        """What people may have said before a sequence, newest first, and back to which one.

        Errors: Failed.
        """
        ...


def acts(app: FastAPI, shelf: Acts, news: News) -> None:
    """The read of what operators did."""

    @app.get("/v1/admin/audit")
    async def audit(who: Asker, before: Before = NUMBER_MAX, limit: Limit = 100) -> shapes.Acts:
        """The acts of operators, newest first; `before` with `next_before` goes on.

        A page looks back over a bounded stretch of the log, so it may hold few, or none.
        """
        check_staff(who)
        start, found = await shelf.spoken(min(before, news.seq + 1))
        items = [_shown(event) for event in found if _is_act(event)]
        shown = items[:limit]
        following = shown[-1]["seq"] if len(items) > limit else start
        return {"items": shown, "next_before": following if following > 1 else None}


def check_staff(who: Reader) -> None:
    """That somebody is staff. Errors: Refused."""
    if who.is_staff:
        return
    if who.account is None:
        raise Refused("missing_credential", "operators show a token", "authorization")
    raise Refused("scope_missing", "this is for operators: it needs a scope of admin")


def _is_act(event: Recorded) -> bool:
    said = event.envelope
    return said.type in ACTS or said.actor.startswith(OPERATOR)


def _shown(event: Recorded) -> shapes.Act:
    said = event.envelope
    data = msgspec.json.decode(said.data)
    fields = data if isinstance(data, dict) else {}
    return {
        "seq": event.seq,
        "at": said.at,
        "actor": said.actor,
        "type": said.type,
        "about": said.agg,
        "reason": fields.get("reason"),
        "data": {name: value for name, value in fields.items() if name not in LEFT_OUT},
    }
