"""Every route of the public client and of the ways in by everybody, against docs/access.md."""

import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from shared.http import iter_routes
from tests.access.table import YES, cell, matches_route, table
from tests.ingest.logins import PASSWORD
from tests.ingest.test_access_matrix import table as own_table
from tests.ingest.ways import CLI_ID, CLOSED, NO_GPU, OPEN, Ways
from tests.support.door import KERNEL
from tests.support.holders import bearer, made

pytestmark = pytest.mark.server

ROWS = table("The public client, and the ways in")
READS = table("Reads")
FILE = {"file": ("kernel.py", KERNEL)}
# Pages know a browser; everything else, a program by its headers.
PAGES = (
    *("/login", "/logout", "/register", "/reset", "/account", "/device", "/link", "/auth/cli"),
    *("/leaderboards/", "/problems/", "/submissions/{", "/people/", "/me/"),
    *("/contests", "/create", "/deadlines.ics", "/queue", "/agents", "/archive"),
)
# Beside the public client's routes for operators.
ADMIN_PAGE = re.compile(
    r"GET /admin(/(overdue|held|labels|appeals|participants.*|evaluations|agents|intake|invites"
    r"|dead-letters))?"
    r"|[A-Z]+ /admin/acts/.*"
)
LOGIN = "login"
# What is sent so that who is let in changes nothing, or nothing that is not there again after.
BODIES: Mapping[str, Mapping[str, Any]] = {
    "POST /user/join": {"code": "nothing"},
    "POST /admin/leaderboards": {"directory": "nothing"},
    "POST /admin/leaderboards/copy/visibility": {"visibility": "public"},
    "POST /admin/leaderboards/club/visibility": {"visibility": "closed"},
    "POST /admin/update-problems": {"repository": "nothing"},
    "POST /admin/export": {"leaderboard_ids": [1], "filename": "f.parquet", "private": True},
    "POST /admin/ban/target": {"reason": "r"},
    "PUT /admin/leaderboards/copy/rate-limits": {
        "mode_category": "test",
        "max_submissions_per_hour": 1000,
    },
    "PUT /admin/leaderboards/club/rate-limits": {
        "mode_category": "test",
        "max_submissions_per_hour": 1000,
    },
    "POST /v1/admin/participants/target/password-reset": {"reason": "r"},
    "POST /v1/auth/device": {"client_id": "c"},
    "POST /v1/auth/device/token": {"device_code": "nothing"},
    "POST /v1/me/identities": {"provider": "github"},
}
EDITOR_FORM = {"filename": "k.py", "mode": "test", "gpu": NO_GPU, "confirmed": "yes"}
FORMS: Mapping[str, Mapping[str, str]] = {
    "POST /login": {"name": "walker", "password": PASSWORD},
    "POST /account/tokens": {"name": "t", "scope": "submit", "days": "7"},
    "POST /device": {"user_code": "{code}"},
    "POST /device/answer": {"user_code": "{code}", "answer": "no"},
    "POST /submissions/{mine}": {"action": "note"},
    "POST /submissions/{closed}": {"action": "note"},
    "POST /link": {"cli_id": "{cli_id}"},
    "POST /problems/copy/submit": EDITOR_FORM,
    "POST /problems/club/submit": EDITOR_FORM,
    "POST /link/answer": {"cli_id": "{cli_id}", "answer": "no"},
}


def is_page(route: str) -> bool:
    """Whether a route answers a browser."""
    return route.partition(" ")[2].startswith(PAGES) or bool(ADMIN_PAGE.fullmatch(route))


def check_storing(answer: httpx.Response, has_credential: bool) -> None:
    """Only what is the same for everybody may be stored after a request with a credential."""
    storing = answer.headers["cache-control"]
    assert storing == "no-store" or storing.startswith("public") or not has_credential, storing
    assert answer.headers["x-content-type-options"] == "nosniff"


async def asked(ways: Ways, name: str, route: str, headers: Mapping[str, str]) -> httpx.Response:
    """What somebody is answered who shows these headers, or on a page their browser."""
    method, _, path = route.partition(" ")
    filled, sent = ways.fill_path(path), sending(ways, route)
    if not is_page(route):
        async with ways.browser(name, headers) as http:
            answer = await http.request(method, filled, **sent)
        check_storing(answer, bool(headers))
        return answer
    cookies, token = ways.browser_credentials(name)
    if method == "POST":
        form = {key: ways.fill_path(value) for key, value in FORMS.get(route, {}).items()}
        sent = {"data": {"csrf": token} | form}
    if route == "POST /register":
        sent["data"] |= {"name": f"new-{name[:9].strip()}", "password": PASSWORD}
    async with ways.browser(name, cookies) as http:
        answer = await http.request(method, filled, **sent)
    check_storing(answer, bool(ways.people[name].cookie))
    return answer


def sending(ways: Ways, route: str) -> dict[str, Any]:
    """What a program sends; a name behind a `?` is where it says which leaderboard it means."""
    method, _, path = route.partition(" ")
    slug = path.partition("?leaderboard=")[2]
    if path.endswith(("/test", "/leaderboard")) and method == "POST":
        return {"files": FILE}
    if path.startswith("/profile"):
        return {"files": FILE, "data": {"leaderboard": slug}}
    if path.startswith("/admin/invites?"):
        return {"json": {"leaderboard": slug}}
    if route == "POST /v1/auth/link":
        return {"json": {"cli_id": ways.names["cli_id"], "confirm": False}}
    if route == "POST /v1/auth/device/claim":
        return {"json": {"user_code": ways.names["code"], "confirm": False}}
    return {"json": BODIES[route]} if route in BODIES else {}


def outcome(answer: httpx.Response) -> str:
    """What the table says of an answer."""
    if answer.headers.get("location", "").startswith("/login?next="):
        return LOGIN
    return cell(answer.status_code)


async def restored(ways: Ways, name: str, route: str) -> None:
    """Put back what is gone once somebody was let in."""
    if route.startswith("DELETE ") and "{mine}" in route:
        ways.names["mine"] = await ways.number(OPEN)
    if route.startswith("DELETE ") and "{closed}" in route:
        ways.names["closed"] = await ways.number(CLOSED)
    if route == "POST /account/tokens/{token}/revoke":
        ways.names["token"] = await ways.token()
    person = ways.people[name]
    if route == "POST /logout" and person.account:
        person.cookie = await ways.logins.sessions.open(person.account)


@pytest.mark.feature("A12")
@pytest.mark.long
async def test_each_caller_gets_what_the_table_says(ways: Ways) -> None:
    differing = []
    for route, expected in ROWS.items():
        results = {}
        for name in expected:
            answer = await asked(ways, name, route, ways.people[name].headers)
            assert answer.status_code < 500, f"{name}, {route}: {answer.text}"
            results[name] = outcome(answer)
            if results[name] == YES:
                await restored(ways, name, route)
        if results != expected:
            differing.append(f"| `{route}` | {' | '.join(results.values())} |")
    assert not differing, "docs/access.md says otherwise:\n" + "\n".join(differing)


async def test_every_route_of_the_application_is_in_a_table(ways: Ways) -> None:
    named, missing = {*own_table(), *ROWS}, []
    for method, path, _ in iter_routes(ways.door.app.routes):
        here = [row for row in (*ROWS, *READS) if row.startswith(f"{method} ")]
        is_there = f"{method} {path}" in named or any(
            matches_route(path, row.partition(" ")[2]) for row in here
        )
        if not (is_there or method == "HEAD"):
            missing.append(f"{method} {path}")
    assert missing == [], "docs/access.md does not name them"


async def test_the_table_lists_open_and_closed_leaderboards(ways: Ways) -> None:
    rows: dict[str, list[str]] = {}
    for row in ROWS:
        method, _, path = row.partition(" ")
        route = ways.route(method, ways.fill_path(path).partition("?")[0])
        assert route is not None, f"docs/access.md names {row}, which is not there"
        rows.setdefault(f"{method} {route.path}", []).append(path)
    for name, paths in rows.items():
        is_both = all(any(slug in path for path in paths) for slug in (OPEN, CLOSED))
        assert is_both or "{leaderboard}" not in name, f"{name}: name {OPEN} and {CLOSED}"


@pytest.mark.long
async def test_the_clients_own_headers_make_no_operators(ways: Ways) -> None:
    rows = [row for row in ROWS if not is_page(row)]
    for route in rows:
        method, is_admins = route.partition(" ")[0], "/admin/" in route
        for header in (CLI_ID, "X-Web-Auth-Id"):
            for name in ("admin", "operator's token"):
                secret = ways.people[name].headers["Authorization"].partition(" ")[2]
                answer = await asked(ways, name, route, {header: secret})
                assert not is_admins or answer.status_code == 401, f"{route}: {answer.text}"
        # They read as a participant who is no member, whatever their roles.
        if method == "GET" and not is_admins:
            secret = ways.people["admin"].headers["Authorization"].partition(" ")[2]
            answer = await asked(ways, "admin", route, {CLI_ID: secret})
            assert outcome(answer) == ROWS[route]["participant"], f"{route}: {answer.text}"


async def test_own_items_follow_the_token(ways: Ways) -> None:
    """A limited token has nothing elsewhere; one that may delete alone reads nothing, and may."""
    own_items = {
        name: (await asked(ways, name, "GET /user/submissions", ways.people[name].headers)).json()
        for name in ("owner", "elsewhere")
    }
    assert [len(own_items[name]) for name in ("owner", "elsewhere")] == [2, 0]
    deleting = bearer((await made(ways.door, "owner", "delete:own"))["token"])
    answer = await asked(ways, "owner", "GET /user/submissions/{mine}", deleting)
    assert answer.status_code == 403
    answer = await asked(ways, "owner", "DELETE /user/submissions/{mine}", deleting)
    assert answer.status_code == 200, answer.text
