"""What programs ask to be given a token, and how participants answer by API."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from ingest.domain.callers import Caller, check_unlimited
from ingest.http.who import Gate, whence
from ingest.login.domain import (
    PENDING_S,
    POLL_EVERY_S,
    PROVIDERS,
    shown_code,
)
from ingest.login.http import bodies
from ingest.login.service import Logins
from ingest.service.linking import SCOPES
from shared.clock import new_id
from shared.codes import STATUS
from shared.errors import Refused

# Described by hand: without it the answer is 400 (http-api.md, 3.1), not fastapi's own.
PROVIDER = {
    "name": "provider",
    "in": "query",
    "required": True,
    "schema": {"type": "string", "enum": [*PROVIDERS]},
}
NO_STORE = {"Cache-Control": "no-store"}


def api(logins: Logins, gate: Gate) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["login"])
    _cli_ids(router, logins, gate)
    _devices(router, logins)
    _claims(router, logins, gate)
    _identities(router, logins, gate)
    return router


def _cli_ids(router: APIRouter, logins: Logins, gate: Gate) -> None:
    @router.get("/auth/init", openapi_extra={"parameters": [PROVIDER]})
    async def init(request: Request, response: Response) -> bodies.Init:
        """A new CLI id, which waits ten minutes for a participant to link it."""
        provider = request.query_params.get("provider", "")
        logins.asked.take(whence(request))
        if provider not in PROVIDERS:
            known = " or ".join(PROVIDERS)
            raise Refused("unknown_provider", f"provider is {provider[:32]!r}: expected {known}")
        state = await logins.cli_ids.give(provider, whence(request))
        response.headers.update(NO_STORE)
        return bodies.Init(state=state, expires_in=PENDING_S, link_url=f"{logins.public_url}/link")

    @router.post("/v1/auth/link")
    async def link(
        body: bodies.Link, caller: Annotated[Caller, Depends(gate.keeper())]
    ) -> bodies.LinkAsked | bodies.Linked:
        """Say who asked for a CLI id; with `confirm`, let it act for you."""
        check_unlimited(caller)
        if not body.confirm:
            found = await logins.cli_ids.preview(body.cli_id, caller.id)
            return bodies.LinkAsked(
                requested_at=found.requested_at,
                network=found.network,
                provider=found.provider,
                expires_at=found.expires_at,
            )
        # Nobody gives an id what they do not hold themselves.
        held = [one for one in SCOPES if caller.may(one)]
        if not held:
            what = f"your token has none of the scopes that a client needs: {', '.join(SCOPES)}"
            raise Refused("scope_missing", what, "cli_id")
        token = await logins.cli_ids.link(body.cli_id, caller.id, held)
        return bodies.Linked(
            token_id=token.number,
            user_id=caller.id,
            user_name=caller.name,
            scopes=list(token.scopes),
            expires_at=token.expires_at,
        )


def _devices(router: APIRouter, logins: Logins) -> None:
    @router.post("/v1/auth/device", openapi_extra=bodies.two_ways(bodies.DeviceAsk))
    async def begin(request: Request, response: Response) -> bodies.DeviceBegun:
        """A code that a device shows, and one by which it asks for its token (RFC 8628, 3.1)."""
        logins.begun.take(f"device {whence(request)}")
        body = await bodies.said(request, bodies.DeviceAsk)
        begun = await logins.devices.begin(body.client_id, body.scope, whence(request))
        page, code = f"{logins.public_url}/device", shown_code(begun.user_code)
        response.headers.update(NO_STORE)
        return bodies.DeviceBegun(
            device_code=begun.device_code,
            user_code=code,
            verification_uri=page,
            verification_uri_complete=f"{page}/{code}",
            expires_in=PENDING_S,
            interval=POLL_EVERY_S,
        )

    @router.post(
        "/v1/auth/device/token",
        response_model=bodies.DeviceToken,
        openapi_extra=bodies.two_ways(bodies.DevicePoll),
    )
    async def poll(request: Request) -> Response:
        """The token of a device that was let in; until then, `error` says why not (RFC 8628)."""
        try:
            body = await bodies.said(request, bodies.DevicePoll)
            given = await logins.devices.poll(body.device_code)
        except Refused as refused:
            return _turned_down(refused)
        life = given.expires_at - logins.devices.clock()
        token = bodies.DeviceToken(
            access_token=given.secret,
            expires_in=int(life.total_seconds()),
            scope=" ".join(given.scopes),
            user_id=given.account,
            user_name=await logins.people.name_of(given.account),
        )
        return JSONResponse(token.model_dump(), headers=NO_STORE)


def _turned_down(refused: Refused) -> JSONResponse:
    """A refusal in our shape and in OAuth's at once (RFC 6749, 5.2)."""
    request_id = new_id()
    body: dict[str, Any] = {
        "detail": refused.reason,
        "code": refused.code,
        "request_id": request_id,
        "error": refused.code,
        "error_description": refused.reason,
    }
    if refused.field:
        body["errors"] = [{"field": refused.field, "message": refused.reason}]
    headers = {"X-Request-Id": request_id} | NO_STORE
    if refused.retry_after_s is not None:
        headers["Retry-After"] = str(int(refused.retry_after_s))
    return JSONResponse(body, STATUS.get(refused.code, 400), headers)


def _claims(router: APIRouter, logins: Logins, gate: Gate) -> None:
    @router.post("/v1/auth/device/claim")
    async def claim(
        body: bodies.Claim, caller: Annotated[Caller, Depends(gate.participant("account"))]
    ) -> bodies.DeviceAsked | bodies.DeviceAnswered:
        """Say which device shows a code; with `confirm`, let it in, or with `deny` away."""
        if not body.confirm:
            found = await logins.devices.preview(body.user_code, caller)
            return bodies.DeviceAsked(
                requested_at=found.requested_at,
                network=found.network,
                client=found.client,
                scopes=list(found.scopes),
                expires_at=found.expires_at,
            )
        found = await logins.devices.answer(body.user_code, caller, is_let_in=not body.deny)
        return bodies.DeviceAnswered(
            status="denied" if body.deny else "ok",
            user_id=caller.id,
            user_name=caller.name,
            scopes=[] if body.deny else list(found.scopes),
            expires_at=None if body.deny else found.grant_ends_at,
        )


def _identities(router: APIRouter, logins: Logins, gate: Gate) -> None:
    @router.post("/v1/me/identities")
    async def link(
        body: bodies.IdentityAsk, caller: Annotated[Caller, Depends(gate.participant("account"))]
    ) -> bodies.IdentityAsked:
        """Where to go to be known at a provider too; nobody is believed without being asked."""
        check_unlimited(caller)
        logins.journeys.provider(body.provider)
        url = f"{logins.public_url}/account/link/{body.provider}"
        return bodies.IdentityAsked(provider=body.provider, url=url)
