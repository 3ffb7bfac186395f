"""A stand-in for the platform: it completes the answers that tests give, and keeps the requests."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

from shared.api import (
    accounts,
    agents,
    cases,
    evaluations,
    labels,
    leaderboards,
    lineage,
    moderation,
    problems,
    queues,
    quotas,
    rating,
    submissions,
    webhooks,
)
from tests.support.api_examples import make_document

# The type of each route's answer, by method and path.
ROUTES: dict[str, type[msgspec.Struct]] = {
    "GET /v1/me": accounts.CurrentAccount,
    "GET /v1/me/milestones": cases.OwnMilestones,
    "(GET|PUT) /v1/me/preferences": accounts.Preferences,
    "GET /v1/me/submissions": submissions.OwnSubmissions,
    "GET /v1/tokens": accounts.Tokens,
    "POST /v1/(admin/)?tokens": accounts.IssuedToken,
    "GET /v1/webhooks": webhooks.Webhooks,
    "POST /v1/webhooks": webhooks.CreatedWebhook,
    "GET /v1/webhooks/[^/]+": webhooks.Webhook,
    "POST /v1/webhooks/[^/]+/test": webhooks.WebhookTest,
    "GET /v1/webhooks/[^/]+/deliveries": webhooks.Deliveries,
    "POST /user/join": leaderboards.LeaderboardMembership,
    "GET /v1/problems": problems.Problems,
    "POST /v1/problems": problems.PublishedVersion,
    "GET /v1/problems/[^/]+": problems.FullProblem,
    "GET /v1/problems/[^/]+/consent": accounts.Consent,
    "POST /v1/checks": problems.ProblemCheck,
    "GET /v1/checks/[^/]+": problems.ProblemCheck,
    "POST /v1/checks/[^/]+/publish": problems.PublishedVersion,
    "GET /v1/evaluations": evaluations.Evaluations,
    "GET /v1/evaluations/[^/]+": evaluations.Evaluation,
    "POST /v1/evaluations/[^/]+/items/[^/]+/submit": submissions.SubmissionReceipts,
    "GET /v1/submissions": submissions.NewestSubmissions,
    "POST /v1/submissions": submissions.SubmissionReceipts,
    "GET /v1/submissions/[0-9]+": submissions.FullSubmission,
    "POST /v1/submissions/[0-9]+/cancel": submissions.CancelledSubmission,
    "GET /v1/submissions/[0-9]+/lineage": lineage.Lineage,
    "GET /v1/compare": leaderboards.Comparison,
    "GET /v1/leaderboards": leaderboards.Leaderboards,
    "GET /v1/leaderboards/[^/]+": leaderboards.LeaderboardSettings,
    "GET /v1/leaderboards/[^/]+/[^/]+": leaderboards.Leaderboard,
    "GET /v1/leaderboards/[^/]+/[^/]+/records": leaderboards.Records,
    "GET /v1/participants/[^/]+/history": leaderboards.History,
    "GET /v1/sets/[^/]+/[^/]+": leaderboards.SetScores,
    "GET /v1/rating": rating.Ratings,
    "GET /v1/quota": quotas.Balances,
    "GET /v1/queue": queues.Queues,
    "GET /v1/agents": agents.Agents,
    "GET /v1/intake": queues.IntakeStatus,
    "GET /v1/audit/scrub": moderation.LogScrub,
    "GET /v1/moderation": moderation.Moderation,
    "GET /v1/rejudges": moderation.Rejudges,
    "GET /v1/rejudges/[^/]+": moderation.FullRejudge,
    "POST /v1/admin/rejudges": moderation.RequestedRejudge,
    "POST /v1/admin/problems/[^/]+/baselines": cases.Baselines,
    "GET /v1/admin/deadletters": queues.DeadLetters,
    "GET /v1/admin/labels": labels.LabelledSubmissions,
    "GET /v1/admin/labels/[^/]+": labels.SubmissionLabels,
    "GET /v1/admin/participants": accounts.ParticipantNames,
    "POST /v1/admin/participants": accounts.OpenedAccount,
    "POST /v1/admin/participants/[^/]+/password-reset": accounts.PasswordResetLink,
    "GET /v1/admin/participants/[^/]+": accounts.Participant,
    "POST /v1/admin/invites": leaderboards.InviteCodes,
    "GET /v1/admin/leaderboards/[^/]+/invites": leaderboards.Invites,
}


class ReceivedRequest(NamedTuple):
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Respond = Callable[[ReceivedRequest], tuple[int, Any]]


@dataclass
class StandIn:
    """Answers each request with the result of a function."""

    say: Respond
    url: str = ""
    heard: list[ReceivedRequest] = field(default_factory=list)

    def answer(self, request: ReceivedRequest) -> tuple[int, bytes]:
        self.heard.append(request)
        status, body = self.say(request)
        if status // 100 == 2 and isinstance(body, dict):
            body = complete_answer(request, body)
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()


def complete_answer(request: ReceivedRequest, body: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with every field that the route's type requires."""
    model = find_model(request)
    return body if model is None else make_document(model, body)


def find_model(request: ReceivedRequest) -> type[msgspec.Struct] | None:
    """Return the type of a route's answer, if it is known."""
    route = f"{request.method} {request.path.partition('?')[0]}"
    return next((model for path, model in ROUTES.items() if re.fullmatch(path, route)), None)


@contextmanager
def run_stand_in(respond: Respond) -> Iterator[StandIn]:
    """Run a stand-in on a free port for as long as the context lasts."""
    standin = StandIn(respond)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._take()

        def do_POST(self) -> None:
            self._take()

        def do_PUT(self) -> None:
            self._take()

        def do_DELETE(self) -> None:
            self._take()

        def _take(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = ReceivedRequest(self.command, self.path, headers, self.rfile.read(length))
            status, body = standin.answer(request)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    standin.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield standin
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def respond_in_turn(*answers: tuple[int, Any]) -> Respond:
    """Answer with one after the other; repeat the last one for ever."""
    remaining = list(answers)
    return lambda heard: remaining.pop(0) if len(remaining) > 1 else remaining[0]  # noqa: ARG005
