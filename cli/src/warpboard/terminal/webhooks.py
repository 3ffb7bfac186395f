"""Commands for webhooks: URLs to which the platform sends events."""

from collections.abc import Coroutine
from typing import Any

import click

from shared.api.webhooks import CreatedWebhook, Deliveries, Webhook, Webhooks, WebhookTest
from shared.presentation.units import instant_text, one_line
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.output import make_table
from warpboard.terminal import options
from warpboard.terminal.options import api_command, local_command, read_stdin_line

ROUTE = "webhooks"
SECRET_LENGTH_MAX = 200
KINDS = (
    *("submission.ended", "submission.ranked", "submission.held", "entry.overtaken"),
    *("problem.opened", "problem.deadline_moved", "problem.closed", "problem.version_published"),
    "rejudge.applied",
)
# The default events.
KINDS_USUAL = ("submission.ended", "submission.held", "entry.overtaken")
ALL = "all"
ID_EXAMPLE = "01a1fe70-a804-7827-b3a0-39e1f99403c8"


@local_command(
    "webhook create https://example.org/hook --event submission.ended",
    parameters=(
        click.argument("address", metavar="URL"),
        click.option(
            *("--event", "events"),
            type=click.Choice(KINDS),
            multiple=True,
            default=KINDS_USUAL,
            show_default=True,
            metavar="EVENT",
            help=f"An event to send; may be repeated: {', '.join(KINDS)}.",
        ),
        click.option(
            *("--problem", "problems"),
            multiple=True,
            metavar="SLUG",
            help="Only events of this problem; may be repeated.",
        ),
        click.option(
            "--secret", metavar="-", help="Sign with the secret from stdin; default: a new one."
        ),
    ),
    access=options.PLATFORM,
)
def create(
    context: AppContext, address: str, secret: str | None, **body: Any
) -> Coroutine[Any, Any, int]:
    """Send events to URL from now on.

    The secret that signs them is shown only once.
    """
    body["url"] = address
    if secret not in (None, "-"):
        raise click.UsageError("other users can see command lines: --secret - reads it from stdin")
    if secret:
        body["secret"] = read_stdin_line(SECRET_LENGTH_MAX + 2)

    async def send() -> int:
        async with context.api() as api:
            answer = await api.act(CreatedWebhook, "POST", ROUTE, body=body)
        created = answer.value
        note = f"webhook {created.id}: its secret is shown only once, so copy it now"
        return context.show(answer.document, [one_line(created.secret, 300)], note)

    return send()


@api_command("webhook list", parameters=(options.WIDE,))
async def list_webhooks(context: AppContext, api: Api) -> int:
    """List your webhooks; one that failed for a day is off."""
    answer = await api.get(Webhooks, ROUTE)
    rows = [
        {
            "id": webhook.id,
            "state": webhook.state,
            "url": one_line(webhook.url, 60),
            "events": " ".join(webhook.events),
            "problems": " ".join(webhook.problems) or ALL,
            "created": webhook.created_at,
        }
        for webhook in answer.value.items
    ]
    return context.show(
        answer.document, [make_table("webhooks", rows, extra=("created", "problems", "events"))]
    )


@api_command(f"webhook show {ID_EXAMPLE}", parameters=(options.ID,))
async def show(context: AppContext, api: Api, id_: str) -> int:
    """Show your webhook ID, and why it is off, if it is."""
    answer = await api.get(Webhook, ROUTE, id_)
    webhook = answer.value
    lines = [
        f"webhook {webhook.id}, {webhook.state}, since {instant_text(webhook.created_at)}",
        f"leads to {one_line(webhook.url, 2048)}",
        f"is told of {', '.join(webhook.events)}",
        f"of {', '.join(webhook.problems) or 'every leaderboard that you see'}",
        *([] if webhook.notice is None else [f"off: {one_line(webhook.notice, 500)}"]),
    ]
    return context.show(answer.document, lines)


@api_command(f"webhook test {ID_EXAMPLE}", parameters=(options.ID,))
async def send_test(context: AppContext, api: Api, id_: str) -> int:
    """Send a test to your webhook ID.

    If it is off and the test succeeds, it is on again.
    """
    answer = await api.act(WebhookTest, "POST", ROUTE, id_, "test", body={})
    delivery = answer.value
    line = f"a test is on its way: event {delivery.event_id}"
    note = f"warpboard webhook deliveries {delivery.id} shows what became of it"
    return context.show(answer.document, [line], note)


@api_command(
    f"webhook deliveries {ID_EXAMPLE}",
    parameters=(
        options.ID,
        click.option(
            "--cursor", metavar="TEXT", help="Show older ones: the cursor at the end of a page."
        ),
        options.WIDE,
    ),
)
async def list_deliveries(context: AppContext, api: Api, id_: str, cursor: str | None) -> int:
    """List what was sent to your webhook ID.

    The newest is first, each with what the address answered.
    """
    answer = await api.get(Deliveries, ROUTE, id_, "deliveries", cursor=cursor)
    page = answer.value
    rows = [
        {
            "number": delivery.number,
            "event": delivery.type,
            "state": delivery.state,
            "tries": delivery.tries,
            "status": delivery.status or None,
            "error": one_line(delivery.error or "", 60) or None,
            "created": delivery.created_at,
            "next try": delivery.next_at,
        }
        for delivery in page.items
    ]
    table = make_table("deliveries", rows, extra=("next try", "status", "tries", "created"))
    note = f"what was before: --cursor {page.next_cursor}" if page.next_cursor else ""
    return context.show(answer.document, [table], note)
