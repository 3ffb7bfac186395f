"""Commands for webhooks: addresses of yours that are notified of events."""

import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any

import click

from shared.api.webhooks import CreatedWebhook, Deliveries, Delivery, Webhook, Webhooks, WebhookTest
from shared.presentation.units import NO_VALUE, instant_text, one_line
from warpboard.domain.tables import Table
from warpboard.service.context import AppContext
from warpboard.service.ports import Api
from warpboard.terminal import options
from warpboard.terminal.command_types import ActionCommand, api_command, local_command

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
ID = click.argument("id_", metavar="ID")
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
            "--problem",
            "problems",
            multiple=True,
            metavar="SLUG",
            help="Only events of this problem; may be repeated.",
        ),
        click.option(
            "--secret", metavar="-", help="Sign with the secret from stdin; default: a new one."
        ),
    ),
    access=options.platform_options,
)
def create(
    context: AppContext,
    address: str,
    events: Sequence[str],
    problems: Sequence[str],
    secret: str | None,
) -> Coroutine[Any, Any, int]:
    """Send events to URL from now on.

    The secret that signs them is shown only once.
    """
    body: dict[str, object] = {"events": events, "problems": problems, "url": address}
    if secret is not None:
        body["secret"] = _read_secret(secret)
    return _create(context, body)


async def _create(context: AppContext, body: Mapping[str, object]) -> int:
    async with context.api(context.place) as api:
        answer = await api.act(CreatedWebhook, "POST", ROUTE, body=body)
    created = answer.value
    note = f"webhook {created.id}: its secret is shown this once, so keep it now"
    return context.show(answer.document, [one_line(created.secret, 300)], note)


def _read_secret(value: str) -> str:
    """Return the secret from stdin, which `-` stands for."""
    if value != "-":
        reason = "other users can see command lines: --secret - reads it from stdin"
        raise click.UsageError(reason)
    stdin: Any = sys.stdin
    return stdin.readline(SECRET_LENGTH_MAX + 2).strip() if stdin else ""


@api_command("webhook list")
async def list_webhooks(context: AppContext, api: Api) -> int:
    """List your webhooks; one that failed for a day is off."""
    answer = await api.get(Webhooks, ROUTE)
    return context.show(answer.document, [webhook_table(answer.value.items)])


@api_command(f"webhook show {ID_EXAMPLE}", parameters=(ID,))
async def show(context: AppContext, api: Api, id_: str) -> int:
    """Show your webhook ID, and why it is off, if it is."""
    answer = await api.get(Webhook, ROUTE, id_)
    return context.show(answer.document, webhook_lines(answer.value))


delete = ActionCommand(
    "DELETE webhooks/{id_}",
    "Delete your webhook ID and its deliveries.",
    f"webhook delete {ID_EXAMPLE}",
    (ID,),
    access=options.platform_options,
)


@api_command(f"webhook test {ID_EXAMPLE}", parameters=(ID,))
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
        ID,
        click.option(
            "--cursor", metavar="TEXT", help="Show older ones: the cursor at the end of a page."
        ),
    ),
)
async def list_deliveries(context: AppContext, api: Api, id_: str, cursor: str | None) -> int:
    """List what was sent to your webhook ID.

    The newest is first, each with what the address answered.
    """
    query = {} if cursor is None else {"cursor": cursor}
    answer = await api.get(Deliveries, ROUTE, id_, "deliveries", **query)
    page = answer.value
    note = f"what was before: --cursor {page.next_cursor}" if page.next_cursor else ""
    return context.show(answer.document, [delivery_table(page.items)], note)


def webhook_lines(webhook: Webhook, zone: tzinfo | None = None) -> Iterator[str]:
    """Describe a webhook in full."""
    yield f"webhook {webhook.id}, {webhook.state}, since {instant_text(webhook.created_at, zone)}"
    yield f"leads to {one_line(webhook.url, 2048)}"
    yield f"is told of {', '.join(webhook.events)}"
    yield "of " + (", ".join(webhook.problems) or "every leaderboard that you see")
    if webhook.notice is not None:
        yield f"off: {one_line(webhook.notice, 500)}"


def webhook_table(webhooks: Sequence[Webhook], zone: tzinfo | None = None) -> Table:
    """List the caller's webhooks."""
    rows = [
        (
            webhook.id,
            webhook.state,
            one_line(webhook.url, 60),
            " ".join(webhook.events),
            " ".join(webhook.problems) or ALL,
            instant_text(webhook.created_at, zone),
        )
        for webhook in webhooks
    ]
    return Table("webhooks", ("id", "state", "url", "events", "problems", "created"), rows)


def delivery_table(deliveries: Sequence[Delivery], zone: tzinfo | None = None) -> Table:
    """List the deliveries of a webhook, newest first."""
    rows = [
        (
            str(delivery.number),
            delivery.type,
            delivery.state,
            str(delivery.tries),
            str(delivery.status or NO_VALUE),
            one_line(delivery.error or "", 60) or NO_VALUE,
            instant_text(delivery.created_at, zone),
            instant_text(delivery.next_at, zone),
        )
        for delivery in deliveries
    ]
    columns = ("number", "event", "state", "tries", "status", "error", "created", "next try")
    return Table("deliveries", columns, rows)
