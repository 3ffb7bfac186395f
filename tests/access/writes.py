"""Requests that change something, for routes whose answers could tell of submissions of others."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.access.embargoed_contest import DASH, REGISTERED, SLUG, SPRINT, EmbargoedContest
from tests.ingest.ways import leaf_routes
from tests.support.door import FILES, KERNEL_FILE, report_of

Body = Mapping[str, Any]
# These read accounts, credentials, agents, queues and settings alone, whoever sends them.
TELLING_NOTHING = (
    *("/account/", "/admin/acts/", "/admin/ban/", "/admin/invites", "/admin/leaderboards"),
    *("/admin/start", "/admin/stop", "/admin/update-problems", "/auth/", "/create", "/device"),
    *("/link", "/login", "/logout", "/register", "/reset/", "/user/join"),
    *("/v1/admin/accounts/", "/v1/admin/acted", "/v1/admin/agents/", "/v1/admin/deadletters/"),
    *("/v1/admin/intake/", "/v1/admin/invites", "/v1/admin/participants", "/v1/admin/pools/"),
    *("/v1/admin/projections/", "/v1/admin/quota", "/v1/admin/tokens", "/v1/auth/"),
    *("/v1/me/appeal", "/v1/me/identities", "/v1/me/merges", "/v1/me/preferences", "/v1/tokens"),
    *("/v1/user/join", "/v1/webhooks", "/v1/checks"),
)
REASON = {"reason": "r"}
SUBMISSION = {"problem": SPRINT, "mode": "ranked", "gpu": "CPU"}
EVALUATION = {
    "problem": SPRINT,
    "gpu": "CPU",
    "items": [{"id": "a", "source": "def custom_kernel(data):\n    return data\n"}],
}
KERNEL = {"filename": "k.py", "source": "def custom_kernel(data): ...", "confirmed": "yes"}
PUBLICATION = {"slug": SPRINT, "report": report_of(FILES, SPRINT)}
EXPORT = {"leaderboard_ids": [1], "filename": "f.parquet", "private": True}
# The entries that requests are about.
ABOUT = ("solo", "owner-test", "rival-late", "rival-dash")
# What is sent to each other route; `{number}` and the like in a value are filled in as in a path.
WRITES: Mapping[str, Sequence[Body]] = {
    "POST /v1/submissions": [
        {"data": SUBMISSION, "files": KERNEL_FILE},
        {"data": SUBMISSION | {"parent": "{number}"}, "files": KERNEL_FILE},
        {"data": SUBMISSION | {"gpu": "none"}, "files": KERNEL_FILE},
    ],
    "POST /submission/{leaderboard}/{gpu}/{mode}": [{"files": KERNEL_FILE}],
    "POST /{leaderboard}/{gpu}/{mode}": [{}],
    "POST /profile": [{"data": {"leaderboard": SPRINT}}],
    "POST /profile/{leaderboard}/{gpu}": [{}],
    "POST /admin/submission/{leaderboard}/{gpu}/{mode}": [{"files": KERNEL_FILE}],
    "DELETE /admin/submissions": [{}, {"params": {"user_name": "rival"}}],
    "DELETE /admin/submissions/{number}": [{}],
    "DELETE /user/submissions/{number}": [{}],
    "DELETE /v1/submissions/{number}": [{"json": REASON}],
    "POST /v1/submissions/{number}/cancel": [{"json": REASON}],
    "POST /v1/submissions/{number}/appeal": [{"json": {"text": "why?"}}],
    "PUT /v1/submissions/{number}/note": [{"json": {"note": "n", "tag": "t"}}],
    "POST /submissions/{number}": [
        {"data": {"action": action, "note": "n", "tag": "t", "reason": "r", "text": "why?"}}
        for action in ("note", "cancel", "withdraw", "appeal", "hold", "other")
    ],
    "POST /submissions/{number}/resubmit": [{"data": KERNEL | {"mode": "ranked", "gpu": "CPU"}}],
    "POST /problems/{slug}/submit": [
        {"data": KERNEL | {"mode": "ranked", "gpu": "CPU"}},
        {"data": KERNEL | {"mode": "ranked", "gpu": "none", "parent": "{number}"}},
    ],
    "POST /v1/archive/search": [
        {"json": {"source": "def custom_kernel(data):\n    return data\n"}},
        {"json": {"like": "{number}"}},
        {"json": {"q": SPRINT}},
    ],
    "POST /v1/evaluations": [
        {"json": EVALUATION},
        {"json": EVALUATION | {"gpu": "none"}},
        {"json": EVALUATION | {"mode": "benchmark"}},
    ],
    "POST /v1/evaluations/{evaluation}/cancel": [{"json": REASON}],
    "POST /v1/evaluations/{evaluation}/items/{item}/submit": [{"json": {"mode": "ranked"}}],
    "POST /v1/problems": [
        {"data": PUBLICATION, "files": [("files", file) for file in FILES.items()]}
    ],
    "POST /v1/problems/{slug}/consent": [{"json": {"digest": "0" * 64}}],
    "DELETE /v1/problems/{slug}/consent": [{}],
    "POST /v1/contests": [
        {"json": {"contest_yml": f"slug: {SLUG}", "files": {}, "update": True, "reason": "r"}}
    ],
    "POST /v1/contests/{slug}/contestants/{act}": [
        {"json": {"contestant": "rival", "reason": "r"}},
        {"json": {"contestant": "nothing", "reason": "r"}},
    ],
    "POST /v1/contests/{slug}/finalists": [
        {"json": {"contestants": [], "reason": "r"}},
        {"json": {"contestants": ["rival"], "reason": "r"}},
    ],
    "POST /v1/contests/{slug}/results": [{"json": REASON}],
    "POST /v1/contests/{slug}/results/confirm": [{"json": REASON}],
    "POST /v1/contests/{slug}/reviews": [
        {"json": {"contestant": "rival", "item": "code", "is_passed": True}}
    ],
    "POST /v1/contests/{slug}/invites": [{"json": {"people_max": 1, "reason": "r"}}],
    "POST /v1/contests/{slug}/registration": [
        {"json": {"division": "open", "terms_digest": "0" * 64}}
    ],
    "DELETE /v1/contests/{slug}/registration": [{}],
    "PUT /v1/contests/{slug}/declaration": [{"json": {"division": "open"}}],
    "POST /v1/contests/{slug}/team": [{"json": {"name": "T"}}],
    "POST /v1/contests/{slug}/team/code": [{}],
    "POST /v1/contests/{slug}/team/join": [{"json": {"code": "c"}}],
    "POST /v1/contests/{slug}/team/leave": [{"json": {}}, {"json": {"participant": "rival"}}],
    "PUT /v1/contests/{slug}/team/captain": [{"json": {"participant": "rival"}}],
    "POST /contests/{slug}": [
        {"data": {"action": action, "division": "open", "name": "T", "participant": "rival"}}
        for action in ("declare", "create-team", "leave-team", "change-captain", "other")
    ],
    "POST /contests/{slug}/organise": [
        {"data": {"action": action, "contestant": "rival", "reason": "r", "item": "code"}}
        for action in ("results", "confirm", "disqualify", "review", "finalists", "other")
    ],
    "POST /admin/export": [{"json": EXPORT}, {"json": EXPORT | {"private": False}}],
    "POST /v1/admin/duels": [{"json": {"first": "{number}", "second": "{number}", "reason": "r"}}],
    "POST /v1/admin/rejudges": [{"json": {"problem": SPRINT, "reason": "r", "select": "all"}}],
    "POST /v1/admin/rejudges/{id}/{act}": [{"json": REASON}],
    "POST /v1/admin/problems/{slug}/baselines": [{"json": REASON}],
    "PUT /v1/admin/leaderboards/{slug}": [{"json": REASON}],
    "POST /v1/admin/leaderboards/{slug}/archive": [{"json": REASON}],
    **{
        f"POST /v1/admin/submissions/{{number}}/{act}": [
            {"json": REASON | {"rule": "r", "is_accepted": True}}
        ]
        for act in ("hold", "release", "disqualify", "restore", "retry", "decide-appeal")
    },
}
# What authors do to their own problems, and participants to their own submissions: it would
# happen, and the contest would be another one.
AUTHORS_ACTS = ("/v1/admin/", "/v1/problems")
OWN_ACTS = (
    *("DELETE /v1/submissions", "DELETE /user/submissions", "POST /submissions/{number}"),
    "DELETE /v1/contests/",
)


class Write(NamedTuple):
    """A request: its route as the tables name it, its path, and what is sent."""

    route: str
    method: str
    path: str
    body: Body

    @property
    def is_page(self) -> bool:
        """Whether a browser sends it, as a form."""
        return "data" in self.body and not self.path.startswith(("/v1/", "/profile"))


def list_routes(contest: EmbargoedContest) -> set[str]:
    """Return every route that changes something, as the tables name it."""
    return {
        f"{method} {route.path}"
        for route in leaf_routes(contest.ways.door.app.routes)
        for method in (route.methods or set()) - {"GET", "HEAD"}
    }


def check_complete(contest: EmbargoedContest) -> None:
    """Check that each route has a body or a reason why its answers tell nothing."""
    routes = list_routes(contest)
    silent = {it for it in routes if it.partition(" ")[2].startswith(TELLING_NOTHING)}
    assert routes - silent == set(WRITES), "give each of these a body, or a reason"


def list_writes(contest: EmbargoedContest) -> Iterator[Write]:
    """Yield every request, about the submissions that were received so far."""
    for route, bodies in WRITES.items():
        method, _, template = route.partition(" ")
        for path, number in _fill(template, contest):
            for body in bodies:
                yield Write(route, method, path, _fill_body(body, number))


def may_send(name: str, route: str) -> bool:
    """Whether a caller may send a request without changing what the test relies on."""
    if name in REGISTERED:
        return not route.startswith(OWN_ACTS)
    return name != "author" or not route.partition(" ")[2].startswith(AUTHORS_ACTS)


def _fill(template: str, contest: EmbargoedContest) -> Iterator[tuple[str, int]]:
    """Yield the paths of a template, each with the submission that it or its body is about."""
    slug = SLUG if "/contests/" in template else SPRINT
    values = {"{slug}": slug, "{leaderboard}": SPRINT, "{gpu}": "CPU", "{mode}": "leaderboard"}
    values |= {"{evaluation}": "nothing", "{item}": "1", "{id}": "nothing", "{act}": "accept"}
    numbers = [contest.numbers[id_] for id_ in ABOUT if id_ in contest.numbers]
    for name, value in values.items():
        template = template.replace(name, value)
    for number in numbers if "{number}" in template else numbers[-1:]:
        yield template.replace("{number}", str(number)), number
    if slug == SPRINT and SPRINT in template:
        yield template.replace(SPRINT, DASH).replace("{number}", str(numbers[-1])), numbers[-1]


def _fill_body(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        return {name: _fill_body(inner, number) for name, inner in value.items()}
    return number if value == "{number}" else value
