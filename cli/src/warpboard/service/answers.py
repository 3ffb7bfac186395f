"""Send decisions, and print what the API returns: as JSON, or as tables for people."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import msgspec

from warpboard.domain.exit_codes import OK
from warpboard.domain.tables import Table
from warpboard.service.ports import Api, LiveProgress, Response, Screen


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The event that a request wrote: null if nothing had to change, missing if it writes none."""

    event: str | msgspec.UnsetType | None = msgspec.UNSET
    seq: int | None = None


def show_answer(
    screen: Screen, answer: Response[msgspec.Struct], *answer_tables: Table, as_json: bool
) -> int:
    """Print an answer as JSON, or as tables for people."""
    if as_json:
        screen.json(answer.document)
    for table in () if as_json else answer_tables:
        screen.table(table)
    return OK


@dataclass(frozen=True)
class ActionRequest:
    """A request that changes something: its route under /v1, and its body."""

    method: str
    path: Sequence[str | int]
    body: Mapping[str, object]


async def send_action(api: Api, screen: Screen, request: ActionRequest, *, as_json: bool) -> int:
    """Send the request and print the event it made; repeating it is harmless. Raises Refused and
    Failed.
    """
    answer = await api.act(RecordedEvent, request.method, *request.path, body=request.body)
    recorded = answer.value
    if as_json:
        screen.json(answer.document)
    elif recorded.event is msgspec.UNSET:
        screen.say("done")
    elif recorded.event is None:
        screen.say("nothing to do: it is so already")
    else:
        screen.say(f"done: {recorded.event}, event {recorded.seq}")
    return OK


class JsonScreen:
    """A Screen that prints only JSON to stdout."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def say(self, line: str) -> None:
        """Print a line beside the answer."""
        self._screen.note(line)

    note = say

    def table(self, table: Table) -> None:
        """Ignore a table, whose rows are in the document."""

    def json(self, value: object) -> None:
        """Print the whole answer as JSON."""
        self._screen.json(value)

    def json_line(self, value: object) -> None:
        """Print one of several documents."""
        self._screen.json_line(value)

    def text(self, text: str) -> None:
        """Ignore text, which is in the document."""

    def marked(self, lines: Iterable[tuple[str, str]]) -> None:
        """Ignore lines, which are in the document."""

    def live(self, keys: Sequence[str]) -> AbstractContextManager[LiveProgress]:
        """Show progress for these keys."""
        return self._screen.live(keys)
