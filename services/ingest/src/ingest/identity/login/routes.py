"""The login API: programs ask for tokens, participants approve them.

Requests are JSON, or forms as RFC 8628 requires.
"""

import json
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.http.addresses import client_address
from ingest.http.requests import NameOrAccount, ReasonRequest, RequestModel
from ingest.identity.caller import Caller, check_unlimited
from ingest.identity.http.authenticator import Authenticator
from ingest.identity.login.rules import (
    DEVICE_SCOPES,
    PENDING_S,
    POLL_EVERY_S,
    PROVIDERS,
    format_code,
)
from ingest.identity.login.service import Logins
from ingest.identity.login.sign_in import RESET_LINK_DAYS, RESET_LINK_DAYS_MAX
from ingest.identity.login.web import read_body
from shared.api.accounts import (
    AnsweredDevice,
    CliId,
    CliIdPreview,
    DeviceCode,
    DevicePreview,
    DeviceToken,
    IdentityLinkPage,
    LinkedCliId,
    PasswordResetLink,
)
from shared.api.fields import PRINTABLE
from shared.errors import Refused
from shared.events import SCOPES
from shared.http import DocumentedRoute, TypedResponse, refused_response
from shared.json_types import JsonInt

BYTES_MAX = 8 * 1024
FIELDS_MAX = 20
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
Grant = Literal["urn:ietf:params:oauth:grant-type:device_code"]

Client = Annotated[str, Field(min_length=1, max_length=64, pattern=f"^{PRINTABLE}+$")]
Kind = TypeVar("Kind", bound="OAuthRequest")
# Declared by hand: a missing provider is answered with 400 (http-api.md, 3.1), not FastAPI's 422.
PROVIDER_PARAMETER = {
    "name": "provider",
    "in": "query",
    "required": True,
    "schema": {"type": "string", "enum": [*PROVIDERS]},
}
NO_STORE = {"Cache-Control": "no-store"}


class OAuthRequest(BaseModel):
    """An OAuth 2 request: unknown fields are ignored (RFC 6749, 3.2)."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class DeviceCodeRequest(OAuthRequest):
    """A device starts a login."""

    client_id: Client = Field("a device", description="shown on the approval page")
    scope: str = Field(
        "",
        max_length=1024,
        description=f"scopes separated by spaces; default: {' '.join(DEVICE_SCOPES)}",
    )


class DeviceTokenRequest(OAuthRequest):
    """A device polls for its token."""

    device_code: str = Field(min_length=1, max_length=256)
    client_id: Client = "a device"
    grant_type: Grant = "urn:ietf:params:oauth:grant-type:device_code"


class LinkRequest(RequestModel):
    """A participant's CLI id; `confirm` false previews it, true links it."""

    cli_id: str = Field(max_length=256)
    confirm: bool


class DeviceAnswerRequest(RequestModel):
    """A user code; `confirm` false previews it, true approves it or, with `deny`, denies it."""

    user_code: str = Field(min_length=1, max_length=64)
    confirm: bool
    deny: bool = False


class IdentityLinkRequest(RequestModel):
    """The provider of an identity to link."""

    provider: str = Field(max_length=64, json_schema_extra={"enum": [*PROVIDERS]})


def json_or_form_body(kind: type[OAuthRequest]) -> dict[str, Any]:
    """Return the OpenAPI request body: the same fields as JSON and as a form."""
    described = kind.model_json_schema()
    if "scope" in described["properties"]:
        scope_pattern = f"({'|'.join(SCOPES)})"
        # Only for readers of the document: an unknown scope is answered with a list of all scopes.
        described["properties"]["scope"]["pattern"] = f"^({scope_pattern}( {scope_pattern})*)?$"
    schema = {"schema": described}
    is_needed = bool(described.get("required"))
    return {"requestBody": {"required": is_needed, "content": {FORM: schema, JSON: schema}}}


async def read_oauth_request(request: Request, kind: type[Kind]) -> Kind:
    """Return a request's body, sent as JSON or as a form. Raises `Refused` (`invalid_request`)."""
    body = await read_body(request, BYTES_MAX)
    is_json = request.headers.get("content-type", "").partition(";")[0].strip() == JSON
    try:
        if is_json:
            return kind.model_validate_json(body)
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
        return kind.model_validate(dict(pairs))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        raise Refused("invalid_request", f"{field}: {first['msg']}", field) from error
    except ValueError as error:
        message = "the body is neither valid JSON nor a form"
        raise Refused("invalid_request", message, "body") from error


def login_router(logins: Logins, auth: Authenticator) -> APIRouter:
    """The routes."""
    router = APIRouter(route_class=DocumentedRoute)
    _cli_ids(router, logins, auth)
    _devices(router, logins)
    _account_routes(router, logins, auth)
    _password_resets(router, logins, auth)
    return router


def _cli_ids(router: APIRouter, logins: Logins, auth: Authenticator) -> None:
    @router.get("/auth/init", openapi_extra={"parameters": [PROVIDER_PARAMETER]})
    async def init(request: Request, response: Response) -> CliId:
        """A new CLI id, which a participant can link within ten minutes."""
        provider = request.query_params.get("provider", "")
        logins.cli_id_attempts.take(client_address(request))
        if provider not in PROVIDERS:
            known = " or ".join(PROVIDERS)
            raise Refused("unknown_provider", f"provider is {provider[:32]!r}: expected {known}")
        state = await logins.cli_ids.issue(provider, client_address(request))
        response.headers.update(NO_STORE)
        return CliId(state=state, expires_in=PENDING_S, link_url=f"{logins.public_url}/link")

    @router.post("/v1/auth/link")
    async def link(
        body: LinkRequest, caller: Annotated[Caller, Depends(auth.token_manager())]
    ) -> CliIdPreview | LinkedCliId:
        """Preview a CLI id; with `confirm`, link it to your account."""
        check_unlimited(caller)
        if not body.confirm:
            login = await logins.cli_ids.preview(body.cli_id, caller.id)
            return msgspec.convert(login, CliIdPreview, from_attributes=True)
        token = await logins.cli_ids.link_for(body.cli_id, caller)
        return LinkedCliId(
            token_id=token.number,
            participant_id=caller.id,
            participant=caller.name,
            scopes=list(token.scopes),
            expires_at=token.expires_at,
        )


def _devices(router: APIRouter, logins: Logins) -> None:
    @router.post("/v1/auth/device", openapi_extra=json_or_form_body(DeviceCodeRequest))
    async def begin(request: Request, response: Response) -> DeviceCode:
        """Start a device login: a user code to show, a device code to poll (RFC 8628, 3.1)."""
        logins.login_attempts.take(f"device {client_address(request)}")
        body = await read_oauth_request(request, DeviceCodeRequest)
        address = client_address(request)
        device_code, user_code = await logins.devices.begin(body.client_id, body.scope, address)
        page, code = f"{logins.public_url}/device", format_code(user_code)
        response.headers.update(NO_STORE)
        return DeviceCode(
            device_code=device_code,
            user_code=code,
            verification_uri=page,
            verification_uri_complete=f"{page}/{code}",
            expires_in=PENDING_S,
            interval=POLL_EVERY_S,
        )

    @router.post("/v1/auth/device/token", openapi_extra=json_or_form_body(DeviceTokenRequest))
    async def poll(request: Request) -> TypedResponse[DeviceToken] | JSONResponse:
        """The token of an approved device; until then, `error` gives the reason (RFC 8628)."""
        try:
            body = await read_oauth_request(request, DeviceTokenRequest)
            grant = await logins.devices.poll(body.device_code)
        except Refused as refused:
            return _oauth_refusal(refused)
        life = grant.expires_at - logins.tokens.clock()
        token = DeviceToken(
            access_token=grant.secret,
            expires_in=int(life.total_seconds()),
            scope=" ".join(grant.scopes),
            participant_id=grant.account,
            participant=await logins.people.name_of(grant.account),
        )
        return TypedResponse(msgspec.json.encode(token), headers=NO_STORE, media_type=JSON)


def _oauth_refusal(refused: Refused) -> JSONResponse:
    """Return a refusal in our form and in OAuth's (RFC 6749, 5.2)."""
    response = refused_response(refused, NO_STORE)
    oauth_fields = {"error": refused.code, "error_description": refused.reason}
    response.body = response.render(json.loads(bytes(response.body)) | oauth_fields)
    response.headers["Content-Length"] = str(len(response.body))
    return response


def _account_routes(router: APIRouter, logins: Logins, auth: Authenticator) -> None:
    @router.post("/v1/auth/device/claim")
    async def claim(
        body: DeviceAnswerRequest, caller: Annotated[Caller, Depends(auth.participant("account"))]
    ) -> DevicePreview | AnsweredDevice:
        """Preview a device by its user code; with `confirm`, approve it, or deny it with `deny`."""
        if not body.confirm:
            login = await logins.devices.preview(body.user_code, caller)
            return msgspec.convert(login, DevicePreview, from_attributes=True)
        login = await logins.devices.answer(body.user_code, caller, is_let_in=not body.deny)
        return AnsweredDevice(
            status="denied" if body.deny else "ok",
            participant_id=caller.id,
            participant=caller.name,
            scopes=[] if body.deny else list(login.scopes),
            expires_at=None if body.deny else login.grant_ends_at,
        )

    @router.post("/v1/me/identities")
    async def link(
        body: IdentityLinkRequest, caller: Annotated[Caller, Depends(auth.participant("account"))]
    ) -> IdentityLinkPage:
        """The page that links an identity; its provider then asks the participant."""
        check_unlimited(caller)
        logins.oauth.provider(body.provider)
        url = f"{logins.public_url}/account/link/{body.provider}"
        return IdentityLinkPage(provider=body.provider, url=url)


class PasswordResetRequest(ReasonRequest):
    """Why an operator creates the link, and for how many days it is valid."""

    valid_days: Annotated[JsonInt, Field(ge=1, le=RESET_LINK_DAYS_MAX)] = RESET_LINK_DAYS


def _password_resets(router: APIRouter, logins: Logins, auth: Authenticator) -> None:
    # Only admins: whoever has the link can become the participant, whatever their roles.
    @router.post("/v1/admin/participants/{name}/password-reset", status_code=201)
    async def reset_password(
        name: NameOrAccount,
        body: PasswordResetRequest,
        actor: Annotated[str, Depends(auth.operator("admin"))],
    ) -> PasswordResetLink:
        """Create a one-time link with which a participant sets a new password, or their first one.

        It is shown once. Using it ends the participant's browser sessions.
        """
        account = await logins.people.find(name)
        return await logins.resets.create(account, body.reason, actor, body.valid_days)
