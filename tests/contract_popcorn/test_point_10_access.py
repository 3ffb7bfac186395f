"""Each route by each credential: the expected status of every pair is written down here."""

import json
from collections.abc import Mapping

import httpx
import pytest

from tests.contract_popcorn.conftest import token_of
from tests.contract_popcorn.polling import HONEST, ended, submit
from tests.contract_popcorn.wire import Answer, Wire, bearer, cli_id, multipart
from tests.support.people import add_problem
from tests.support.platform import ROOT, Running

pytestmark = [pytest.mark.server, pytest.mark.long]

WHO = ("no", "unlinked", "unknown", "revoked", "other", "member", "owner", "admin")
# By method and path: what each of WHO is answered. Admins show a Bearer token, which is nobody's
# participant; the others show the client's own header.
EXPECTED: Mapping[str, tuple[int, ...]] = {
    "GET /health": (200,) * 8,
    "GET /leaderboards": (200,) * 8,
    "GET /gpus/identity": (200,) * 8,
    "GET /gpus/secret-club": (401, 401, 401, 401, 403, 200, 200, 200),
    "GET /submissions/identity/CPU": (200,) * 8,
    "GET /submissions/secret-club/CPU": (401, 401, 401, 401, 403, 200, 200, 200),
    "GET /submission_count/secret-club/CPU": (401, 401, 401, 401, 403, 200, 200, 200),
    "GET /runner_queue/CPU": (200,) * 8,
    "POST /submission/identity/H100/test": (401, 401, 401, 401, 202, 202, 202, 401),
    "POST /submission/secret-club/H100/test": (401, 401, 401, 401, 403, 202, 202, 401),
    "POST /secret-club/H100/test": (401, 401, 401, 401, 403, 200, 200, 401),
    "GET /user/submissions": (401, 401, 401, 401, 200, 200, 200, 401),
    "GET /user/submissions/{own}": (401, 401, 401, 401, 404, 403, 200, 401),
    "DELETE /user/submissions/{other}": (401, 401, 401, 401, 404, 403, 403, 401),
    "GET /jobs/{own}": (401, 401, 401, 401, 404, 403, 200, 401),
    "GET /admin/stats": (401, 401, 401, 401, 401, 401, 401, 200),
    "GET /admin/submissions/{own}": (401, 401, 401, 401, 401, 401, 401, 200),
    "POST /admin/start": (401, 401, 401, 401, 401, 401, 401, 200),
    "GET /admin/leaderboards/identity/invites": (401, 401, 401, 401, 401, 401, 401, 200),
    "GET /admin/leaderboards/identity/submissions": (401, 401, 401, 401, 401, 401, 401, 200),
    "GET /admin/leaderboards/identity/rate-limits": (401, 401, 401, 401, 401, 401, 401, 200),
    "DELETE /admin/invites/nothing": (401, 401, 401, 401, 401, 401, 401, 404),
    "DELETE /admin/leaderboards/nothing": (401, 401, 401, 401, 401, 401, 401, 404),
    "POST /admin/invites": (401, 401, 401, 401, 401, 401, 401, 404),
    "POST /admin/ban/nobody-here": (401, 401, 401, 401, 401, 401, 401, 404),
}
BODIES = {
    "/admin/invites": {"leaderboard": "nothing"},
    "/admin/ban/nobody-here": {"reason": "a test"},
}


@pytest.fixture(scope="module")
def callers(platform: Running, admin: Wire, nobody: Wire) -> dict[str, Wire]:
    """One of each kind; owner and member have joined secret-club."""
    folder = platform.folder.parent / "secret-club"
    folder.mkdir(exist_ok=True)
    for path in (ROOT / "problems" / "identity").iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    add_problem(platform.url, folder)
    closed = admin.post_json("/admin/leaderboards/secret-club/visibility", {"visibility": "closed"})
    assert closed.status == 200, closed.body
    made = admin.post_json("/admin/invites", {"leaderboard": "secret-club", "count": 2}).json()
    found = {"no": nobody, "admin": admin}
    for name in ("other", "member", "owner"):
        found[name] = Wire(nobody.base, cli_id(token_of(platform, f"access-{name}")))
    for name, code in zip(("member", "owner"), made["codes"], strict=True):
        assert found[name].post_json("/user/join", {"code": code}).status == 200
    state = nobody.get("/auth/init?provider=discord").json()["state"]
    found["unlinked"] = Wire(nobody.base, cli_id(state))
    found["unknown"] = Wire(nobody.base, cli_id("wb_" + "x" * 43))
    found["revoked"] = Wire(nobody.base, cli_id(_revoked(platform)))
    return found


def _revoked(platform: Running) -> str:
    """A token that was good, and is not any more."""
    headers = {"Warpboard-Participant": "access-revoked"}
    url = f"{platform.url}/v1/tokens"
    body = {"name": "gone", "scopes": ["read:own"], "expires_in_days": 1}
    made = httpx.post(url, json=body, headers=headers, timeout=30).json()
    gone = httpx.delete(f"{url}/{made['id']}", headers=headers, timeout=30)
    assert gone.status_code == 200, gone.text
    return str(made["token"])


@pytest.fixture(scope="module")
def numbers(callers: dict[str, Wire]) -> dict[str, str]:
    """A submission of the owner's on the closed leaderboard, and one of another member's."""
    own = submit(callers["owner"], board="secret-club")
    other = submit(callers["member"], board="secret-club")
    ended(callers["owner"], own)
    ended(callers["member"], other)
    return {"own": str(own), "other": str(other)}


@pytest.mark.parametrize("route", [route for route in EXPECTED if "{other}" not in route])
def test_point_10_each_route_by_each_credential(
    callers: dict[str, Wire], numbers: dict[str, str], route: str
) -> None:
    method, _, path = route.partition(" ")
    path = path.format(**numbers)
    found = tuple(asked(callers[who], method, path).status for who in WHO)
    assert dict(zip(WHO, found, strict=True)) == dict(zip(WHO, EXPECTED[route], strict=True))


def test_point_10_deleting_is_for_who_owns_it(
    callers: dict[str, Wire], numbers: dict[str, str]
) -> None:
    path = f"/user/submissions/{numbers['own']}"
    found = {who: callers[who].delete(path).status for who in WHO if who != "owner"}
    assert set(found.values()) <= {401, 403, 404}, found
    assert callers["owner"].get(path).status == 200, "nobody else's try changed anything"


def test_point_10_joining_is_for_participants(callers: dict[str, Wire]) -> None:
    found = {who: callers[who].post_json("/user/join", {"code": "none"}).status for who in WHO}
    outside = {who: found.pop(who) for who in ("no", "unlinked", "unknown", "revoked", "admin")}
    assert set(outside.values()) == {401}
    # A wrong code, or one too many from this address.
    assert set(found.values()) <= {400, 429}, found


def asked(wire: Wire, method: str, path: str) -> Answer:
    """A request of the matrix, whole."""
    lines = [*([wire.credential] if wire.credential else []), f"host: {wire.host}"]
    if path.endswith("/H100/test"):
        body = multipart(HONEST, 'filename="submission.py"')
        with wire.opened(method, path, lines[:-1], body) as stream:
            # No agent has this GPU type, so a stream that begins has no end.
            is_begun = stream.headers["content-type"] == "text/event-stream"
            return Answer(stream.status, stream.headers, b"") if is_begun else stream.whole()
    if path in BODIES:
        data = json.dumps(BODIES[path]).encode()
        lines += ["content-type: application/json", f"content-length: {len(data)}"]
        return wire.exchange(method, path, lines, data)
    return wire.exchange(method, path, lines if method == "GET" else [*lines, "content-length: 0"])


def test_point_10_an_admin_token_without_a_scope_is_forbidden(
    callers: dict[str, Wire], platform: Running
) -> None:
    secret = callers["owner"].credential.partition(": ")[2]
    plain = Wire(platform.url, bearer(secret))
    for path in ("/admin/stats", "/admin/leaderboards/identity/invites"):
        assert plain.get(path).status == 403
