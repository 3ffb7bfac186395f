"""The group `admin`: what operators decide, each an event with their name and their reason."""

import click
from click import IntRange

from warpboard.service import reviewing
from warpboard.terminal import machines, moderation, options, people
from warpboard.terminal.deeds import Shape, command
from warpboard.terminal.desk import Desk, Place


@click.command(name="moderation")
@click.option("--all", "is_all", is_flag=True, help="And what is decided already.")
@options.as_json
@options.office
@click.pass_obj
def list_rulings(desk: Desk, /, place: Place, *, is_all: bool, as_json: bool) -> int:
    """List held submissions and open appeals, which wait for a decision.

    \b
    Example:
      warpboard admin moderation --all
    """
    return desk.operate(
        place,
        lambda api: reviewing.moderation(api, desk.screen, is_all=is_all, as_json=as_json),
    )


def admin() -> click.Group:
    """The group, from the shapes of its commands."""
    group = options.Group(
        "admin",
        help="What operators decide: each is an event with your name and your reason.\n\n"
        "The token is that of the platform's --folder, or WARPBOARD_OPERATOR_TOKEN.",
    )
    groups = {"admin": group}
    for name, about in (machines.GROUPS | people.GROUPS).items():
        groups[f"admin {name}"] = options.Group(name, help=about)
        group.add_command(groups[f"admin {name}"])
    for shape in (*machines.SHAPES, *moderation.SHAPES, *people.SHAPES):
        groups[shape.words.rpartition(" ")[0]].add_command(command(shape))
    for words, made in people.COMMANDS.items():
        for one in made:
            groups[words].add_command(one)
    group.add_command(list_rulings)
    return group


@click.group(cls=options.Group)
def letters() -> None:
    """Look at events that consumers gave up, and hand them out again."""


@letters.command(name="list")
@options.as_json
@options.office
@click.pass_obj
def list_letters(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """List every event that a consumer gave up.

    \b
    Example:
      warpboard deadletters list
    """
    return desk.operate(
        place, lambda api: reviewing.dead_letters(api, desk.screen, as_json=as_json)
    )


@letters.command(name="show")
@click.argument("consumer")
@click.argument("seq", type=IntRange(min=1))
@options.as_json
@options.office
@click.pass_obj
def show_letter(desk: Desk, /, place: Place, consumer: str, *, seq: int, as_json: bool) -> int:
    """Show the event SEQ that a CONSUMER gave up, and why.

    \b
    Example:
      warpboard deadletters show ranker-announce 118
    """
    return desk.operate(
        place,
        lambda api: reviewing.dead_letter(api, desk.screen, consumer, seq, as_json=as_json),
    )


REDRIVE = Shape(
    "deadletters redrive",
    "admin/deadletters/{consumer}/{seq}/redrive",
    "Hand event SEQ to the CONSUMER that gave it up once more.",
    'ranker-announce 118 --reason "the URL is back"',
    (
        click.argument("consumer"),
        click.argument("seq", type=IntRange(min=1)),
        options.reason,
    ),
)


def deadletters() -> click.Group:
    """The group of events that were given up."""
    group = options.Group("deadletters", dict(letters.commands), help=letters.help)
    group.add_command(command(REDRIVE))
    return group
