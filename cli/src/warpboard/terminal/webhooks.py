"""Commands for webhooks: addresses of yours that are notified of events."""

import sys
from typing import Any

import click

from warpboard.service import webhooks
from warpboard.service.webhooks import KINDS, KINDS_USUAL
from warpboard.terminal import options
from warpboard.terminal.command_types import ActionCommand, ApiCommand
from warpboard.terminal.context import AppContext, PlatformTarget

SECRET_LENGTH_MAX = 200
ID = click.argument("id_", metavar="ID")
ID_EXAMPLE = "01a1fe70-a804-7827-b3a0-39e1f99403c8"


def _read_secret(value: str | None) -> str | None:
    """Return the secret from stdin if `-` is given."""
    if value is None:
        return None
    if value != "-":
        reason = "other users can see command lines: --secret - reads it from stdin"
        raise click.UsageError(reason)
    stdin: Any = sys.stdin
    return stdin.readline(SECRET_LENGTH_MAX + 2).strip() if stdin else ""


@click.command()
@click.argument("address", metavar="URL")
@click.option(
    *("--event", "events"),
    type=click.Choice(KINDS),
    multiple=True,
    default=KINDS_USUAL,
    show_default=True,
    metavar="EVENT",
    help=f"An event to send; may be repeated: {', '.join(KINDS)}.",
)
@click.option(
    "--problem",
    "problems",
    multiple=True,
    metavar="SLUG",
    help="Only events of this problem; may be repeated.",
)
@click.option("--secret", metavar="-", help="Sign with the secret from stdin; default: a new one.")
@options.as_json
@options.platform_options
@options.pass_app
def create(context: AppContext, /, place: PlatformTarget, *, as_json: bool, **values: Any) -> int:
    """Send events to URL from now on.

    The secret that signs them is shown only once.

    \b
    Example:
      warpboard webhook create https://example.org/hook --event submission.ended
    """
    body = {name: list(values[name]) for name in ("events", "problems")} | {
        "url": values["address"]
    }
    secret = _read_secret(values["secret"])
    if secret is not None:
        body["secret"] = secret
    return context.ask(
        place, lambda api: webhooks.create_webhook(api, context.screen, body, as_json=as_json)
    )


list_webhooks = ApiCommand(
    webhooks.list_webhooks,
    "List your webhooks; one that failed for a day is off.",
    "webhook list",
)

show = ApiCommand(
    webhooks.show_webhook,
    "Show your webhook ID, and why it is off, if it is.",
    f"webhook show {ID_EXAMPLE}",
    (ID,),
)

delete = ActionCommand(
    "DELETE webhooks/{id_}",
    "Delete your webhook ID and its deliveries.",
    f"webhook delete {ID_EXAMPLE}",
    (ID,),
    access=options.platform_options,
)

send_test = ApiCommand(
    webhooks.send_test,
    "Send a test to your webhook ID.\n\nIf it is off and the test succeeds, it is on again.",
    f"webhook test {ID_EXAMPLE}",
    (ID,),
)

list_deliveries = ApiCommand(
    webhooks.list_deliveries,
    "List what was sent to your webhook ID.\n\n"
    "The newest is first, each with what the address answered.",
    f"webhook deliveries {ID_EXAMPLE}",
    (
        ID,
        click.option(
            "--cursor", metavar="TEXT", help="Show older ones: the cursor at the end of a page."
        ),
    ),
)
