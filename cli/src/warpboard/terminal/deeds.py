"""Operators' commands that are one request: how each is asked for, and the command of it."""

import string
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from warpboard.service.deeds import Deed, act
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place


class Shape(NamedTuple):
    """A command's words, its route under /v1, its help, what an example says after it.

    What the route does not name of the parameters is the request's body.
    """

    words: str
    path: str
    help: str
    example: str
    parameters: tuple[Callable[[Any], Any], ...]
    method: str = "POST"

    @property
    def name(self) -> str:
        """The last word."""
        return self.words.rpartition(" ")[2]


def deed(shape: Shape, given: dict[str, Any]) -> Deed:
    """The request that parameters make."""
    named = {name for _, name, _, _ in string.Formatter().parse(shape.path) if name}
    path = [part.format_map(given) for part in shape.path.split("/")]
    said = {name: value for name, value in given.items() if name not in named}
    return Deed(shape.method, path, said)


def command(shape: Shape) -> click.Command:
    """The command of a shape: it asks as an operator, and says which event it made."""

    def done(desk: Desk, /, place: Place, *, as_json: bool, **given: Any) -> int:
        wanted = deed(shape, given)
        return desk.operate(place, lambda api: act(api, desk.screen, wanted, as_json=as_json))

    callback: Callable[..., Any] = options.office(done)
    for add in (options.as_json, *reversed(shape.parameters)):
        callback = add(callback)
    told = f"{shape.help}\n\n\b\nExample:\n  warpboard {shape.words} {shape.example}"
    return click.command(name=shape.name, help=told)(click.pass_obj(callback))
