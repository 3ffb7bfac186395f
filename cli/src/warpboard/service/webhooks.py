"""The caller's webhooks and their deliveries."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo

from shared.api.webhooks import CreatedWebhook, Deliveries, Delivery, Webhook, Webhooks, WebhookTest
from shared.presentation.units import NO_VALUE, instant_text, one_line
from warpboard.domain.exit_codes import OK
from warpboard.domain.tables import Table
from warpboard.service.answers import show_answer
from warpboard.service.ports import Api, Screen

ROUTE = "webhooks"
KINDS = (
    *("submission.ended", "submission.ranked", "submission.held", "entry.overtaken"),
    *("problem.opened", "problem.deadline_moved", "problem.closed", "problem.version_published"),
    "rejudge.applied",
)
# The default events.
KINDS_USUAL = ("submission.ended", "submission.held", "entry.overtaken")
ALL = "all"


async def create_webhook(
    api: Api, screen: Screen, body: Mapping[str, object], *, as_json: bool
) -> int:
    """Create a webhook and show its secret, once."""
    answer = await api.act(CreatedWebhook, "POST", ROUTE, body=body)
    created = answer.value
    if as_json:
        screen.json(answer.document)
        return OK
    screen.say(one_line(created.secret, 300))
    screen.note(f"webhook {created.id}: its secret is shown this once, so keep it now")
    return OK


async def list_webhooks(api: Api, screen: Screen, *, as_json: bool) -> int:
    """List the caller's webhooks."""
    answer = await api.get(Webhooks, ROUTE)
    own_webhooks = answer.value.items
    return show_answer(screen, answer, webhook_table(own_webhooks), as_json=as_json)


async def show_webhook(api: Api, screen: Screen, id_: str, *, as_json: bool) -> int:
    """Show a webhook. Raises Refused if it does not exist."""
    answer = await api.get(Webhook, ROUTE, id_)
    webhook = answer.value
    if as_json:
        screen.json(answer.document)
    for line in () if as_json else webhook_lines(webhook):
        screen.say(line)
    return OK


async def send_test(api: Api, screen: Screen, id_: str, *, as_json: bool) -> int:
    """Have a test event sent. Raises Refused."""
    answer = await api.act(WebhookTest, "POST", ROUTE, id_, "test", body={})
    delivery = answer.value
    if as_json:
        screen.json(answer.document)
    else:
        screen.say(f"a test is on its way: event {delivery.event_id}")
        screen.note(f"warpboard webhook deliveries {delivery.id} shows what became of it")
    return OK


async def list_deliveries(
    api: Api, screen: Screen, id_: str, cursor: str | None, *, as_json: bool
) -> int:
    """List the deliveries of a webhook, newest first. Raises Refused."""
    query = {} if cursor is None else {"cursor": cursor}
    answer = await api.get(Deliveries, ROUTE, id_, "deliveries", **query)
    page = answer.value
    code = show_answer(screen, answer, delivery_table(page.items), as_json=as_json)
    if page.next_cursor and not as_json:
        screen.note(f"what was before: --cursor {page.next_cursor}")
    return code


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
