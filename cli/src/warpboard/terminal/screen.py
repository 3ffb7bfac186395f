"""What is printed: answers to stdout, everything beside them to stderr."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from warpboard.domain.progress import News
from warpboard.domain.tables import NUMBERS, Table
from warpboard.domain.units import harmless
from warpboard.service.ports import Live

# Without a terminal a line is as long as it is: programs read it, nobody sees it wrap.
UNBOUNDED = 100_000
BAR_WIDTH = 12
EMPTY = "nothing yet"
STYLES = {
    "passed": "green",
    "ranked": "green",
    "free": "green",
    "running": "green",
    "equal": "green",
    "wrong_answer": "red",
    "late_write": "red",
    "crashed": "red",
    "timed_out": "red",
    "compile_error": "red",
    "import_error": "red",
    "infra_failed": "magenta",
    "silent": "yellow",
    "skipped": "dim",
}


MARKS = {"added": "green", "removed": "red", "place": "cyan", "title": "bold", "faint": "dim"}


class PlainConsole(Console):
    """A Console that leaves it to the command how it ends when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        """Say so to the command."""
        raise BrokenPipeError


class TerminalScreen:
    """A Screen on two streams; a stream that is no terminal gets no colours and no wrapping."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = _console(out)
        self._err = _console(err)
        # What is said while bars are shown goes above them, where both are the same terminal.
        self._above: Console | None = None

    @property
    def _answer(self) -> Console:
        return self._above or self._out

    def say(self, line: str) -> None:
        """A line of the answer."""
        self._answer.print(_text(line))

    def note(self, line: str) -> None:
        """A line beside the answer."""
        self._err.print(_text(line))

    def table(self, table: Table) -> None:
        """A table; without a terminal its columns stand apart by two spaces."""
        if not self._out.is_terminal:
            self.text("\n".join((table.title, *_plain(table), "", "")))
            return
        shown = RichTable(title=None, box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in table.columns:
            shown.add_column(Text(name, "bold"), justify=_justify(name))
        for row in table.rows:
            shown.add_row(*(_cell(value) for value in row))
        self._answer.print(Text(table.title, "bold"))
        self._answer.print(shown if table.rows else Text(EMPTY, "dim"))
        self._answer.print()

    def json(self, value: object) -> None:
        """The whole answer for a program."""
        self.text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def json_line(self, value: object) -> None:
        """One of several documents for a program, on a line of its own, at once."""
        self.text(json.dumps(value, ensure_ascii=False) + "\n")

    def text(self, text: str) -> None:
        """The answer as it is."""
        self._out.file.write(text)
        self._out.file.flush()

    def marked(self, lines: Iterable[tuple[str, str]]) -> None:
        """Lines of the answer, coloured by what they are."""
        for mark, line in lines:
            self._answer.print(Text(harmless(line), MARKS.get(mark, "")))

    @contextmanager
    def live(self, keys: Sequence[str]) -> Iterator[Live]:
        """Progress beside the answer: bars on a terminal, else a line a change."""
        if not self._err.is_terminal:
            yield _Lines(self)
            return
        with _bars(self._err) as progress:
            self._above = self._err if self._out.is_terminal else None
            try:
                yield _Bars(progress, keys)
            finally:
                self._above = None


class _Lines:
    """Progress where nothing can be replaced."""

    def __init__(self, screen: TerminalScreen) -> None:
        self._screen = screen
        self._last: dict[str, str] = {}

    def show(self, key: str, news: News) -> None:
        if self._last.get(key) != news.sentence:
            self._last[key] = news.sentence
            self._screen.note(f"{key}: {news.whole}")


class _Bars:
    """Progress on a terminal: a line a thing, with the time until it is over."""

    def __init__(self, progress: Progress, keys: Sequence[str]) -> None:
        self._progress = progress
        self._tasks = {
            key: progress.add_task(harmless(key), sentence="", total=None) for key in keys
        }

    def show(self, key: str, news: News) -> None:
        task, sentence = self._tasks[key], harmless(news.whole)
        if news.is_over:
            self._progress.update(task, completed=1, total=1, sentence=sentence)
            self._progress.stop_task(task)
        else:
            total = news.total or None
            self._progress.update(task, completed=news.done, total=total, sentence=sentence)


class _KnownBar(BarColumn):
    """A bar where it is known how much there is, else nothing."""

    def render(self, task: Task) -> ProgressBar | Text:  # type: ignore[override]
        return Text(" " * BAR_WIDTH) if task.total is None else super().render(task)


def _bars(console: Console) -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        _KnownBar(bar_width=BAR_WIDTH),
        TimeElapsedColumn(),
        TextColumn("{task.fields[sentence]}", markup=False),
    )
    return Progress(*columns, console=console, transient=True)


def _console(stream: TextIO) -> Console:
    is_terminal = stream.isatty()
    return PlainConsole(
        file=stream,
        force_terminal=is_terminal,
        no_color=None if is_terminal else True,
        width=None if is_terminal else UNBOUNDED,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _plain(table: Table) -> Iterator[str]:
    """A table's lines for a pipe: as long as they are, and nothing at their ends."""
    if not table.rows:
        yield EMPTY
        return
    rows = [table.columns, *table.rows]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(table.columns))]
    for row in rows:
        cells = zip(row, widths, table.columns, strict=True)
        yield "  ".join(_padded(text, width, name) for text, width, name in cells).rstrip()


def _padded(text: str, width: int, column: str) -> str:
    left = " " * (width - cell_len(text))
    return left + text if _justify(column) == "right" else text + left


def _justify(column: str) -> Literal["left", "right"]:
    return "right" if column in NUMBERS else "left"


def _cell(value: str) -> Text:
    return Text(value, STYLES.get(value, ""))


def _text(line: str) -> Text:
    return Text(harmless(line))
