"""What a program that writes kernels starts: the server of the Model Context Protocol."""

import sys

import click

from warpboard.domain.clients import configuration
from warpboard.domain.outcome import OK
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place, run


@click.command()
@options.as_json
@options.place
@click.pass_obj
def mcp(desk: Desk, /, place: Place, *, as_json: bool) -> int:
    """Serve the Model Context Protocol on stdin and stdout, for a program that writes kernels.

    A client starts this, as whoever you are logged in as; with --json it prints what to tell a
    client, and ends. Ctrl-D or Ctrl-C ends it.

    \b
    Example:
      warpboard mcp --json --url https://warpboard.example
    """
    if as_json:
        # A client starts its servers wherever it likes.
        folder = place.folder.resolve() if place.folder else None
        said = {"--url": place.url, "--folder": folder, "--as": place.participant}
        desk.screen.json(configuration({name: str(one) for name, one in said.items() if one}))
        return OK
    if sys.stdin is not None and sys.stdin.isatty():
        desk.screen.note("a program speaks here, not a person: --json prints what to tell it")
    return run(desk.serve(place))


COMMANDS = (mcp,)
