"""Secrets in responses: every one is marked, and no stored response has one."""

import importlib
import pkgutil
import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from shared import api
from shared.api.accounts import DeviceToken, IssuedToken, PasswordResetLink
from shared.api.fields import ApiModel
from shared.api.secrets import ResponseField, has_secret, parts, response_fields
from shared.api.submissions import Code
from shared.api.webhooks import CreatedWebhook
from shared.http import body_type, iter_routes, may_have_secret
from tests.ingest.test_password_resets import REPEATS
from tests.ingest.test_repeats import KEY
from tests.ingest.ways import Ways

pytestmark = pytest.mark.server

SUSPICIOUS = re.compile(
    r"secret|token|password|passphrase|credential|code|key|seed|hash|cookie|signature|url|link|uri"
)
LISTED = "operators and authors can list invites, so the accounts hold their codes anyway"
# Fields with such a name that are no secrets, and why.
PUBLIC: Mapping[str, str] = {
    **{
        f"{kind}.keys": "public keys of seals"
        for kind in ("LogReport", "AuditReport", "ContestAuditReport", "RatingAuditReport")
    },
    "SealKey.key": "the public key of the seals",
    "Seals.key": "the public key of the seals",
    "FullSubmission.key_commit": "a hash that commits to a key",
    "HistoryEvent.key_commit": "a hash that commits to a key",
    "Baseline.code": "why it failed",
    "CheckFinding.code": "what a check found",
    **dict.fromkeys(("Artifact.url", "Download.url", "Harness.url"), "a path of this API"),
    **dict.fromkeys(("ProblemFile.url", "Start.url"), "a path of this API"),
    "Ranking.appeal_url": "a page that needs a login",
    **dict.fromkeys(("Webhook.url", "CreatedWebhook.url"), "the owner's own; it is not shown once"),
    "DeviceToken.token_type": "always Bearer",
    "CliId.link_url": "the page that everybody opens to link an id",
    "DeviceCode.verification_uri": "the page that everybody opens to enter a code",
    "IdentityLinkPage.url": "a page that needs a login",
    "Profile.download_url": "a path of this API",
    **dict.fromkeys(("PolledSubmission.code", "StreamError.code"), "why something failed"),
    "EvaluationResult.failure_code": "why it has no verdict",
    "EvaluationResult.harness_code": "a digest of the harness",
    "Evaluation.results_url": "a path of this API",
    "EvaluationUse.token": "which token it was, not the token itself",
    **dict.fromkeys(("InviteCodes.codes", "CreatedInvites.codes"), LISTED),
    "ContestCode.code": "a new one can be made at any time, and makes the old one void",
    **dict.fromkeys(("Invite.code", "InviteItem.code"), LISTED),
    **dict.fromkeys(("RevokedInvite.code", "RevokedInviteCode.code"), "it is of no use any more"),
}


def is_declared(field: ResponseField) -> bool:
    holds_text = any(part in (str, Any) for part in parts(field.annotation))
    is_outcome = Code in parts(field.annotation)
    is_suspicious = holds_text and not is_outcome and SUSPICIOUS.search(field.name) is not None
    return field.is_secret or not is_suspicious or f"{field.model}.{field.name}" in PUBLIC


def api_models() -> list[type[ApiModel]]:
    """Every type of the HTTP API, also of routes of other services."""
    for module in pkgutil.iter_modules(api.__path__, f"{api.__name__}."):
        importlib.import_module(module.name)
    models: list[type[ApiModel]] = [ApiModel]
    for model in models:
        models += model.__subclasses__()
    return models


async def test_every_field_that_looks_like_a_secret_is_one_or_has_a_reason(ways: Ways) -> None:
    bodies = [*api_models(), *(body for _, _, body in route_bodies(ways) if body is not None)]
    fields = [field for body in bodies for field in response_fields(body)]
    assert len(fields) > 300
    undeclared = {f"{field.model}.{field.name}" for field in fields if not is_declared(field)}
    assert undeclared == set(), "mark them as Secret, or say in PUBLIC why they are none"
    known = {f"{field.model}.{field.name}" for field in fields if not field.is_secret}
    assert PUBLIC.keys() <= known, "these are gone"


def route_bodies(ways: Ways) -> list[tuple[str, str, object]]:
    return [
        (method, path, body_type(route.endpoint) or route.response_model)
        for method, path, route in iter_routes(ways.door.app.routes)
        if isinstance(route, APIRoute)
    ]


async def test_the_type_of_every_response_that_may_be_stored_is_known(ways: Ways) -> None:
    for method, path, body in route_bodies(ways):
        assert method != "POST" or not path.startswith("/v1/") or body is not None, path


@pytest.mark.parametrize("body", [IssuedToken, CreatedWebhook, PasswordResetLink])
def test_known_secrets_are_marked(body: type) -> None:
    assert has_secret(body)
    assert has_secret(list[body])  # type: ignore[valid-type]
    assert has_secret(DeviceToken | None)


def test_a_route_of_an_unknown_type_may_have_a_secret() -> None:
    assert may_have_secret(None)


# What is sent to each route whose response has a secret.
BODIES: Mapping[str, Mapping[str, object]] = {
    "/v1/tokens": {"name": "t", "scopes": ["submit"]},
    "/v1/admin/tokens": {"name": "t", "scopes": ["submit"], "participant": "owner", "reason": "r"},
    "/v1/webhooks": {"url": "https://hooks.example.org/in", "events": ["submission.ended"]},
    "/v1/admin/participants/{name}/password-reset": {"reason": "r"},
    "/v1/me/merges/code": {},
    "/v1/auth/device": {"client_id": "laptop"},
    "/v1/auth/device/token": {},
}


async def test_no_secret_is_stored_and_a_repeat_says_what_to_do(ways: Ways) -> None:
    routes = list(iter_routes(ways.door.app.routes))
    deletable = {path.partition("{")[0] for method, path, _ in routes if method == "DELETE"}
    bodies = {
        path: body
        for method, path, body in route_bodies(ways)
        if method == "POST" and path.startswith("/v1/") and has_secret(body)
    }
    assert bodies.keys() == BODIES.keys()
    for path, body in bodies.items():
        first, again = await send_twice(ways, path)
        assert first.is_success, f"{path}: {first.text}"
        assert (again.status_code, again.json()["code"]) == (409, "shown_once"), again.text
        assert "again with a new key" in again.json()["detail"]
        if id_ := first.json().get("id"):
            assert f"DELETE {path}/{id_}" in again.json()["detail"]
            assert f"{path}/" in deletable
        async with ways.door.stores.pool.connection() as connection:
            rows = await (await connection.execute(REPEATS)).fetchall()
        assert rows
        secrets = [first.json()[field.name] for field in response_fields(body) if field.is_secret]
        assert secrets
        assert not [secret for secret in secrets if secret in repr(rows) + again.text]


async def send_twice(ways: Ways, path: str) -> tuple[httpx.Response, httpx.Response]:
    """The responses to a request and its repeat under a key, by a caller who may send it."""
    caller = "operator's token" if "/admin/" in path else "owner"
    body = BODIES[path]
    if path == "/v1/auth/device/token":
        device_code, user_code = await ways.logins.devices.begin("laptop", "submit", None)
        claim = {"user_code": user_code, "confirm": True}
        async with ways.browser("owner", ways.people["owner"].headers) as http:
            (await http.post("/v1/auth/device/claim", json=claim)).raise_for_status()
        body = {"device_code": device_code}
    async with ways.browser(caller, {**ways.people[caller].headers, **KEY}) as http:
        first, again = [await http.post(path.replace("{name}", "walker"), json=body) for _ in "12"]
    return first, again
