"""The pages of an account's notifications: preferences for Discord, webhooks, their deliveries."""

from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, Response

from ingest.access.callers import check_scope
from ingest.http.request_models import IdInPath
from ingest.login.service import Session
from ingest.login.web import Form, Web, parse_form, route_class
from ingest.preferences.routes import PreferenceCommands, PreferencesRequest
from ingest.preferences.rules import PREFERENCES
from ingest.webhooks import LIMIT, NUMBER_MAX, WebhookRequest, Webhooks
from shared.errors import Refused
from shared.events import WEBHOOK_KINDS

NOTIFICATIONS = "/account/notifications"
DISCORD = "discord"
KINDS_CHOSEN = ("submission.ended", "submission.held", "entry.overtaken")

Before = Annotated[int, Query(ge=1, le=NUMBER_MAX)]


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
        identities = await web.logins.people.register.identities(caller.id)
        values: dict[str, Any] = {
            "chosen": preferences.of(caller.account),
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
        id: IdInPath,  # noqa: A002  (as in the API)
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
    async def test(request: Request, id: IdInPath) -> Response:  # noqa: A002  (as in the API)
        """Send a test event."""
        session, _ = await web.require_form(request, NOTIFICATIONS)
        check_scope(session.caller, "webhooks")
        await webhooks.test(session.caller, id)
        return web.redirect(f"{NOTIFICATIONS}/webhooks/{id}")

    @router.post(f"{path}/remove")
    async def remove(request: Request, id: IdInPath) -> Response:  # noqa: A002  (as in the API)
        """Remove a webhook and its deliveries."""
        session, _ = await web.require_form(request, NOTIFICATIONS)
        check_scope(session.caller, "webhooks")
        await webhooks.remove(session.caller, id)
        return web.redirect(NOTIFICATIONS)
