"""Webhooks: addresses of one's own that are told of events."""

import sys
from typing import Any

import click

from warpboard.domain.webhooks import KINDS, KINDS_USUAL
from warpboard.service import webhooks
from warpboard.service.deeds import Deed, act
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place

SECRET_LENGTH_MAX = 200


@click.group()
def webhook() -> None:
    """Have addresses of yours told of what happens."""


def _secret(said: str | None) -> str | None:
    """The secret on stdin, where `-` asks for it."""
    if said is None:
        return None
    if said != "-":
        what = "what is on a command line is seen by others: --secret - reads it from stdin"
        raise click.UsageError(what)
    stdin: Any = sys.stdin
    return stdin.readline(SECRET_LENGTH_MAX + 2).strip() if stdin else ""


@webhook.command()
@click.argument("address", metavar="URL")
@click.option(
    *("--event", "events"),
    type=click.Choice(KINDS),
    multiple=True,
    default=KINDS_USUAL,
    show_default=True,
    metavar="EVENT",
    help=f"What it is told of, may be repeated: {', '.join(KINDS)}.",
)
@click.option("--problem", "problems", multiple=True, metavar="SLUG", help="Of it alone.")
@click.option("--secret", metavar="-", help="Sign with the secret on stdin; else a fresh one.")
@options.as_json
@options.place
@click.pass_obj
def add(desk: Desk, /, place: Place, *, as_json: bool, **asked: Any) -> int:
    """Have URL told of events from now on; the secret that signs them is shown this once.

    \b
    Example:
      warpboard webhook add https://example.org/hook --event submission.ended
    """
    said = {name: list(asked[name]) for name in ("events", "problems")} | {"url": asked["address"]}
    secret = _secret(asked["secret"])
    if secret is not None:
        said["secret"] = secret
    return desk.ask(place, lambda api: webhooks.add(api, desk.screen, said, as_json=as_json))


@webhook.command(name="list")
@options.as_json
@options.place
@click.pass_obj
def list_webhooks(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """List your webhooks; one that is off took nothing for a day.

    \b
    Example:
      warpboard webhook list
    """
    return desk.ask(place, lambda api: webhooks.listed(api, desk.screen, as_json=as_json))


@webhook.command()
@click.argument("id_", metavar="ID")
@options.as_json
@options.place
@click.pass_obj
def show(desk: Desk, /, place: Place, id_: str, *, as_json: bool) -> int:
    """Show your webhook ID, and why it is off if it is.

    \b
    Example:
      warpboard webhook show 01a1fe70-a804-7827-b3a0-39e1f99403c8
    """
    return desk.ask(place, lambda api: webhooks.one(api, desk.screen, id_, as_json=as_json))


@webhook.command()
@click.argument("id_", metavar="ID")
@options.as_json
@options.place
@click.pass_obj
def remove(desk: Desk, /, place: Place, id_: str, *, as_json: bool) -> int:
    """Have your webhook ID told nothing any more; what it was told is forgotten.

    \b
    Example:
      warpboard webhook remove 01a1fe70-a804-7827-b3a0-39e1f99403c8
    """
    deed = Deed("DELETE", (webhooks.ROUTE, id_), {})
    return desk.ask(place, lambda api: act(api, desk.screen, deed, as_json=as_json))


@webhook.command()
@click.argument("id_", metavar="ID")
@options.as_json
@options.place
@click.pass_obj
def test(desk: Desk, /, place: Place, id_: str, *, as_json: bool) -> int:
    """Send a test to your webhook ID; one that is off and takes it is on again.

    \b
    Example:
      warpboard webhook test 01a1fe70-a804-7827-b3a0-39e1f99403c8
    """
    return desk.ask(place, lambda api: webhooks.test(api, desk.screen, id_, as_json=as_json))


@webhook.command()
@click.argument("id_", metavar="ID")
@click.option("--cursor", metavar="TEXT", help="What was before: the cursor that a page ends with.")
@options.as_json
@options.place
@click.pass_obj
def deliveries(desk: Desk, /, place: Place, id_: str, *, cursor: str | None, as_json: bool) -> int:
    """List what your webhook ID was told, and what it answered, newest first.

    \b
    Example:
      warpboard webhook deliveries 01a1fe70-a804-7827-b3a0-39e1f99403c8
    """
    return desk.ask(
        place, lambda api: webhooks.deliveries(api, desk.screen, id_, cursor, as_json=as_json)
    )


COMMANDS = (webhook,)
