"""What whoever audits needs from outside: the public key of the seals, and the seals."""

from collections.abc import Sequence
from typing import Annotated, Protocol

from fastapi import FastAPI, Query

from ranker.http.shapes import deciding as shapes
from shared.errors import Refused
from shared.event_log import Recorded
from shared.events import AuditSealed

SEALS_MAX = 1000


class Seals(Protocol):
    """Where seals are found."""

    async def newest(self, limit: int) -> Sequence[Recorded]:
        """The newest seals first. Errors: Failed."""
        ...


def audit(app: FastAPI, seals: Seals, key: str | None) -> None:
    """The reads of seals; `key` is the public half, base64, None where nothing is sealed."""

    @app.get("/v1/audit/key")
    async def public_key() -> shapes.Key:
        """What signatures of seals are checked with."""
        if key is None:
            raise Refused("not_found", "nothing is sealed here: there is no key")
        return {"algorithm": "ed25519", "key": key}

    @app.get("/v1/audit/seals")
    async def newest(limit: Annotated[int, Query(ge=1, le=SEALS_MAX)] = 100) -> shapes.Seals:
        """The newest seals first: keep them, so that the log cannot be written anew."""
        return {"items": [_shown(one) for one in await seals.newest(limit)], "key": key}


def _shown(event: Recorded) -> shapes.Seal:
    fact = event.fact
    assert isinstance(fact, AuditSealed), "nothing else lies on that subject"
    return {
        "seq": event.seq,
        "at": event.envelope.at,
        "sealed_seq": fact.seq,
        "chain": fact.chain,
        "sig": event.envelope.sig,
        "data": bytes(event.envelope.data).decode(),
    }
