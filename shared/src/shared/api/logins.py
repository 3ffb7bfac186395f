"""Logins: CLI ids, devices, and the page that links an identity."""

from typing import Literal

from shared.api.fields import ApiModel, Timestamp
from shared.api.secrets import Secret


class IdentityLinkPage(ApiModel, frozen=True, kw_only=True):
    """The page that links the identity, for a browser that is logged in."""

    provider: str
    url: str


class CliId(ApiModel, frozen=True, kw_only=True):
    """A CLI id, of no use until somebody links it at `link_url`."""

    state: Secret
    expires_in: int
    link_url: str


class CliIdPreview(ApiModel, frozen=True, kw_only=True):
    """Who asked for a CLI id."""

    requested_at: Timestamp
    network: str
    provider: str
    expires_at: Timestamp


class ParticipantAccess(ApiModel, frozen=True, kw_only=True):
    """For whom something may act, with which scopes and until when."""

    participant_id: str
    participant: str
    scopes: list[str]
    expires_at: Timestamp | None


class LinkedCliId(ParticipantAccess, frozen=True, kw_only=True):
    """A CLI id that acts for a participant."""

    status: Literal["ok"] = "ok"
    token_id: int


class DeviceCode(ApiModel, frozen=True, kw_only=True):
    """The codes of a device and where to enter them; Source: RFC 8628, 3.2."""

    device_code: Secret
    user_code: Secret
    verification_uri: str
    verification_uri_complete: Secret
    expires_in: int
    interval: int


class DeviceToken(ApiModel, frozen=True, kw_only=True):
    """The token of a device; Source: RFC 6749, 5.1."""

    access_token: Secret
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105
    expires_in: int
    scope: str
    participant_id: str
    participant: str


class DevicePreview(ApiModel, frozen=True, kw_only=True):
    """The device with this code, and what it asks for."""

    requested_at: Timestamp
    network: str
    client: str
    scopes: list[str]
    expires_at: Timestamp


class AnsweredDevice(ParticipantAccess, frozen=True, kw_only=True):
    """A device that was approved or denied."""

    status: Literal["ok", "denied"]
