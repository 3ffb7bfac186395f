"""A screen for programs: what people are told goes beside the answer, the answer is a document."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from warpboard.domain.tables import Table
from warpboard.service.ports import Live, Screen


class Aside:
    """A Screen that leaves stdout to JSON."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def say(self, line: str) -> None:
        """A line beside the answer."""
        self._screen.note(line)

    note = say

    def table(self, table: Table) -> None:
        """Nothing: its rows are in the document."""

    def json(self, value: object) -> None:
        """The whole answer for a program."""
        self._screen.json(value)

    def json_line(self, value: object) -> None:
        """One of several documents."""
        self._screen.json_line(value)

    def text(self, text: str) -> None:
        """Nothing: it is in the document."""

    def marked(self, lines: Iterable[tuple[str, str]]) -> None:
        """Nothing: they are in the document."""

    def live(self, keys: Sequence[str]) -> AbstractContextManager[Live]:
        """Progress of the things with these keys."""
        return self._screen.live(keys)
