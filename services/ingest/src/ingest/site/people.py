"""The pages of participants: profiles, one's own submissions, and one's notifications."""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, FastAPI, Query, Request, Response

from harness.vocabulary import SUBMISSION_MODES
from ingest.http.requests import Id
from ingest.identity.access.preferences import PREFERENCES
from ingest.identity.caller import check_scope
from ingest.identity.login.service import Session
from ingest.identity.login.web import Form, NotLoggedIn, Web, parse_form, route_class
from ingest.identity.preferences.service import PreferenceCommands, PreferencesRequest
from ingest.ports import ReadProxy
from ingest.quotas.service import Quotas
from ingest.site.charts import Chart, draw_progress
from ingest.site.reads import (
    PageReads,
    api_path,
    find_visitor,
    parse_as_of,
    read_if_possible,
    read_in_time,
    read_s_max,
)
from ingest.webhooks.service import LIMIT, NUMBER_MAX, WebhookRequest, Webhooks
from shared.api.cases import OwnMilestone, OwnMilestones
from shared.api.leaderboards import PublicParticipant
from shared.api.rating import Ratings
from shared.api.submissions import LISTED_STATES, NewestSubmissions, OwnSubmissions, SubmissionLine
from shared.errors import Refused
from shared.events import WEBHOOK_KINDS

OWN_SUBMISSIONS = "/me/submissions"
OWN_SUBMISSIONS_PER_PAGE = 50
FILTERS = ("problem", "gpu", "mode", "state", "tag")
# Charts are drawn from this many ranked submissions, the newest; the table shows fewer.
RANKED_MAX, RANKED_LISTED_MAX = 200, 50
CHARTS_MAX = 12
MILESTONES_MAX = 100
RATED_PER_PAGE = 100
AFTER_MAX = 10_000_000
NOTIFICATIONS = "/account/notifications"
DISCORD = "discord"
KINDS_CHOSEN = ("submission.ended", "submission.held", "entry.overtaken")
Before = Annotated[int, Query(ge=1, le=NUMBER_MAX)]
After = Annotated[int, Query(ge=0, le=AFTER_MAX)]


class BoardProgress(NamedTuple):
    """The chart of a participant's ranked submissions to a leaderboard."""

    problem: str
    problem_version: int
    gpu: str
    chart: Chart


def chart_progress(ranked: Sequence[SubmissionLine]) -> list[BoardProgress]:
    """Return a chart for each leaderboard with several scores, under its newest version."""

    def board(submission: SubmissionLine) -> tuple[str, str, int]:
        return submission.problem, submission.gpu, submission.result_version

    charts: dict[tuple[str, str], BoardProgress] = {}
    # Newer versions come first; within one, the order of the submissions stays.
    for key, group in groupby(sorted(ranked, key=board, reverse=True), board):
        problem, gpu, version = key
        if (problem, gpu) not in charts and (chart := draw_progress([*group])):
            charts[problem, gpu] = BoardProgress(problem, version, gpu, chart)
    return sorted(charts.values())[:CHARTS_MAX]


async def read_milestones(reads: PageReads) -> list[OwnMilestone]:
    """Return the milestones of the reader, whom alone the API shows them to."""
    path = api_path("me", "milestones")
    page = await read_if_possible(reads.read(path, OwnMilestones, limit=MILESTONES_MAX))
    return page.items if page else []


def add_people_pages(router: APIRouter, web: Web, ranker: ReadProxy, quotas: Quotas) -> None:
    """Add the profile of a participant, and the list of the visitor's submissions."""

    @router.get("/people/{name}")
    async def profile(request: Request, name: str) -> Response:
        """The places, progress, records and ranked submissions of a participant."""
        visitor = await find_visitor(request, web, ranker)
        reads = visitor.reads
        participant, submissions = await read_in_time(
            asyncio.gather(
                reads.read(api_path("participants", name), PublicParticipant),
                reads.read(
                    api_path("submissions"),
                    NewestSubmissions,
                    participant=name,
                    mode="ranked",
                    limit=RANKED_MAX,
                ),
            )
        )
        if participant.participant != name:
            return web.redirect(f"/people/{quote(participant.participant, safe='')}")
        is_own = participant.participant_id == visitor.account
        values: dict[str, Any] = {
            "participant": participant,
            "titles": {entry.problem: entry.title for entry in participant.entries},
            "is_own": is_own,
            "progress": chart_progress(submissions.items),
            "submissions": submissions.items[:RANKED_LISTED_MAX],
            "has_more": len(submissions.items) > RANKED_LISTED_MAX,
            "milestones": await read_in_time(read_milestones(reads)) if is_own else [],
        }
        return web.public_page(request, "person.html", visitor.session, has_script=True, **values)

    _add_rating(router, web, ranker)
    _add_own_submissions(router, web, ranker, quotas)


def _add_rating(router: APIRouter, web: Web, ranker: ReadProxy) -> None:
    @router.get("/rating")
    async def rating(request: Request, after: After = 0) -> Response:
        """Participants by their rating over all problems, now or at an instant."""
        visitor = await find_visitor(request, web, ranker)
        as_of = parse_as_of(request.query_params.get("as_of", ""))
        query = {} if as_of is None else {"as_of": as_of.isoformat()}
        reading = visitor.reads.read(
            api_path("rating"), Ratings, after=after, limit=RATED_PER_PAGE, **query
        )
        rating = await read_in_time(reading, read_s_max(as_of))
        next_query = urlencode({**query, "after": rating.next_after or 0})
        values: dict[str, Any] = {
            "rating": rating,
            "account": visitor.account,
            "as_of": as_of,
            "next_path": f"/rating?{next_query}" if rating.next_after else None,
            "api_path": f"/v1/rating?{urlencode(query)}" if query else "/v1/rating",
        }
        return web.public_page(request, "rating.html", visitor.session, **values)


def _add_own_submissions(router: APIRouter, web: Web, ranker: ReadProxy, quotas: Quotas) -> None:
    @router.get(OWN_SUBMISSIONS)
    async def own_submissions(request: Request) -> Response:
        """The submissions of the visitor in all modes, filtered, page by page."""
        visitor = await find_visitor(request, web, ranker)
        if visitor.session is None:
            raise NotLoggedIn(OWN_SUBMISSIONS)
        query = {name: request.query_params.get(name, "").strip() for name in FILTERS}
        filters = {name: value for name, value in query.items() if value}
        cursor = request.query_params.get("cursor") or None
        path = api_path("me", "submissions")
        page = await read_in_time(
            visitor.reads.read(
                path, OwnSubmissions, **filters, cursor=cursor, limit=OWN_SUBMISSIONS_PER_PAGE
            )
        )
        first_path = f"{OWN_SUBMISSIONS}?{urlencode(filters)}" if filters else OWN_SUBMISSIONS
        next_query = urlencode(filters | {"cursor": page.next_cursor or ""})
        values: dict[str, Any] = {
            "submissions": page.items,
            "open_submissions": await quotas.open_submissions(visitor.session.caller),
            "filters": query,
            "is_filtered": bool(filters),
            "is_next": cursor is not None,
            "modes": SUBMISSION_MODES,
            "states": LISTED_STATES,
            "first_path": first_path,
            "next_path": f"{OWN_SUBMISSIONS}?{next_query}" if page.next_cursor else "",
        }
        return web.public_page(request, "own_submissions.html", visitor.session, **values)


def parse_webhook(form: Form) -> WebhookRequest:
    """Return the webhook that a form asks for. Raises `Refused`."""
    if not form.all("event"):
        raise Refused("invalid_request", "choose at least one event for the webhook", "event")
    return parse_form(
        WebhookRequest,
        url=form.text("url"),
        events=list(form.all("event")),
        problems=form.text("problems").replace(",", " ").split(),
        secret=form.text("secret") or None,
    )


def add_notification_pages(
    app: FastAPI, web: Web, preferences: PreferenceCommands, webhooks: Webhooks
) -> None:
    """Add the routes of all pages about notifications."""
    router = APIRouter(route_class=route_class(web), include_in_schema=False)
    _add_overview(router, web, preferences, webhooks)
    _add_webhook_pages(router, web, webhooks)
    app.include_router(router)


def _add_overview(
    router: APIRouter, web: Web, preferences: PreferenceCommands, webhooks: Webhooks
) -> None:
    async def overview_page(
        request: Request, session: Session, error: Refused | None = None, **more: Any
    ) -> Response:
        caller = session.caller
        identities = await web.logins.people.list_identities(caller.id)
        values: dict[str, Any] = {
            "chosen": preferences.find(caller.account),
            "choices": PREFERENCES,
            "has_discord": any(identity.provider == DISCORD for identity in identities),
            "webhooks": await webhooks.list_webhooks(caller),
            "kinds": WEBHOOK_KINDS,
            "new": {"url": "", "problems": ""},
            "events": KINDS_CHOSEN,
            "form_open": False,
            "secret": "",
        }
        return web.page(request, "notifications.html", session, error, **(values | more))

    @router.get(NOTIFICATIONS)
    async def overview(request: Request) -> Response:
        """What the participant is notified of, and their webhooks."""
        return await overview_page(request, await web.require_session(request, NOTIFICATIONS))

    @router.post(f"{NOTIFICATIONS}/discord")
    async def choose(request: Request) -> Response:
        """Change the preferences for Discord."""
        session, form = await web.require_form(request, NOTIFICATIONS)
        chosen = {name: form.text(name) for name in PREFERENCES if form.text(name)}
        try:
            await preferences.choose(session.caller, parse_form(PreferencesRequest, **chosen))
        except Refused as refused:
            return await overview_page(request, session, refused)
        return web.redirect(NOTIFICATIONS)

    @router.post(f"{NOTIFICATIONS}/webhooks")
    async def add(request: Request) -> Response:
        """Add a webhook and show its secret, once."""
        session, form = await web.require_form(request, NOTIFICATIONS)
        check_scope(session.caller, "webhooks")
        try:
            webhook = parse_webhook(form).to_new_webhook()
            _, secret = await webhooks.add(session.caller, webhook)
        except Refused as refused:
            new = {name: form.text(name) for name in ("url", "problems")}
            return await overview_page(
                request, session, refused, new=new, events=form.all("event"), form_open=True
            )
        return await overview_page(request, session, secret=secret)


def _add_webhook_pages(router: APIRouter, web: Web, webhooks: Webhooks) -> None:
    path = f"{NOTIFICATIONS}/webhooks/{{id}}"

    @router.get(path)
    async def deliveries(
        request: Request,
        id: Id,  # noqa: A002  (as in the API)
        before: Before = NUMBER_MAX,
    ) -> Response:
        """A webhook with its deliveries, newest first."""
        session = await web.require_session(request, f"{NOTIFICATIONS}/webhooks/{id}")
        check_scope(session.caller, "webhooks")
        webhook = await webhooks.get_webhook(session.caller, id)
        rows = await webhooks.rows.deliveries(id, before, LIMIT + 1)
        values: dict[str, Any] = {
            "webhook": webhook,
            "deliveries": rows[:LIMIT],
            "next_before": rows[LIMIT - 1].number if len(rows) > LIMIT else None,
        }
        return web.page(request, "webhook.html", session, **values)

    @router.post(f"{path}/test")
    async def test(request: Request, id: Id) -> Response:  # noqa: A002  (as in the API)
        """Send a test event."""
        session, _ = await web.require_form(request, NOTIFICATIONS)
        check_scope(session.caller, "webhooks")
        await webhooks.test(session.caller, id)
        return web.redirect(f"{NOTIFICATIONS}/webhooks/{id}")

    @router.post(f"{path}/remove")
    async def remove(request: Request, id: Id) -> Response:  # noqa: A002  (as in the API)
        """Remove a webhook and its deliveries."""
        session, _ = await web.require_form(request, NOTIFICATIONS)
        check_scope(session.caller, "webhooks")
        await webhooks.remove(session.caller, id)
        return web.redirect(NOTIFICATIONS)
