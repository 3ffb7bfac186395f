"""What programs send to log in, as JSON or, by RFC 8628, as a form; and what they are told."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.http.bodies import PRINTABLE, Body
from ingest.login.domain import DEVICE_SCOPES, PROVIDERS
from shared.errors import Refused
from shared.events import SCOPES

BYTES_MAX = 8 * 1024
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
Grant = Literal["urn:ietf:params:oauth:grant-type:device_code"]

Client = Annotated[str, Field(min_length=1, max_length=64, pattern=f"^{PRINTABLE}+$")]
Kind = TypeVar("Kind", bound="Grants")


class Grants(BaseModel):
    """A request of OAuth 2's: what it does not know it leaves alone (RFC 6749, 3.2)."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class DeviceAsk(Grants):
    """A device asks to act for somebody."""

    client_id: Client = Field("a device", description="shown to who is asked to let it in")
    scope: str = Field(
        "",
        max_length=1024,
        description=f"scopes with spaces between; {' '.join(DEVICE_SCOPES)} if none is named",
    )


class DevicePoll(Grants):
    """A device asks whether it was let in."""

    device_code: str = Field(min_length=1, max_length=256)
    client_id: Client = "a device"
    grant_type: Grant = "urn:ietf:params:oauth:grant-type:device_code"


class Link(Body):
    """A participant's CLI id; `confirm` false asks about it, true links it."""

    cli_id: str = Field(max_length=256)
    confirm: bool


class Claim(Body):
    """A device's code; `confirm` false asks about it, true lets it in, or with `deny` away."""

    user_code: str = Field(min_length=1, max_length=64)
    confirm: bool
    deny: bool = False


class IdentityAsk(Body):
    """Where a participant wants to be known too."""

    provider: str = Field(max_length=64, json_schema_extra={"enum": [*PROVIDERS]})


class Said(BaseModel):
    """An answer, of which the document tells every field."""

    model_config = ConfigDict(extra="forbid")


class IdentityAsked(Said):
    """The page that links the identity, to be opened in a browser that is logged in."""

    provider: str
    url: str


class Init(Said):
    """A CLI id, worth nothing until somebody links it at `link_url`."""

    state: str
    expires_in: int
    link_url: str


class LinkAsked(Said):
    """Who asked for a CLI id."""

    requested_at: datetime
    network: str
    provider: str
    expires_at: datetime


class Linked(Said):
    """A CLI id that acts for a participant."""

    status: Literal["ok"] = "ok"
    token_id: int
    user_id: str
    user_name: str
    scopes: list[str]
    expires_at: datetime | None


class DeviceBegun(Said):
    """What a device shows, and by what it asks; Source: RFC 8628, 3.2."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class DeviceToken(Said):
    """What a device was given; Source: RFC 6749, 5.1."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105
    expires_in: int
    scope: str
    user_id: str
    user_name: str


class DeviceAsked(Said):
    """Which device shows a code, and what it asks for."""

    requested_at: datetime
    network: str
    client: str
    scopes: list[str]
    expires_at: datetime


class DeviceAnswered(Said):
    """A device that was let in as a participant, or turned away."""

    status: Literal["ok", "denied"]
    user_id: str
    user_name: str
    scopes: list[str]
    expires_at: datetime | None


def two_ways(kind: type[Grants]) -> dict[str, Any]:
    """A request's body as OpenAPI describes it: the same fields as JSON and as a form."""
    described = kind.model_json_schema()
    if "scope" in described["properties"]:
        one = f"({'|'.join(SCOPES)})"
        # For readers of the document alone: what is no scope gets a sentence that lists them all.
        described["properties"]["scope"]["pattern"] = f"^({one}( {one})*)?$"
    schema = {"schema": described}
    is_needed = bool(described.get("required"))
    return {"requestBody": {"required": is_needed, "content": {FORM: schema, JSON: schema}}}


async def said(request: Request, kind: type[Kind]) -> Kind:
    """What a request says, as JSON or as a form. Errors: Refused `invalid_request`."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BYTES_MAX:
            raise Refused("request_too_large", f"this takes at most {BYTES_MAX:,} bytes")
    is_json = request.headers.get("content-type", "").partition(";")[0].strip() == JSON
    try:
        if is_json:
            return kind.model_validate_json(body)
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20)
        return kind.model_validate(dict(pairs))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        raise Refused("invalid_request", f"{field}: {first['msg']}", field) from error
    except ValueError as error:
        raise Refused("invalid_request", "the body is neither JSON nor a form", "body") from error
