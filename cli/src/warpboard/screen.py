"""The output: answers to stdout, everything else to stderr."""

import io
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from shared.presentation.report_parts import WORDS, ProgressText
from shared.presentation.units import NO_VALUE, escape_control_characters
from warpboard.domain.output import NUMBERS, Table

# Lines for programs never wrap.
UNBOUNDED = 100_000
BAR_WIDTH = 12
# The spaces between the columns of a table.
GAP = 2
EMPTY = "nothing yet"
STYLES = dict.fromkeys(WORDS, "red") | {
    "passed": "green",
    "ranked": "green",
    "free": "green",
    "running": "green",
    "equal": "green",
    "infra_failed": "magenta",
    "silent": "yellow",
    "skipped": "dim",
}
MARKS = {"added": "green", "removed": "red", "place": "cyan", "title": "bold", "faint": "dim"}


# Shows the newest progress of one thing, which replaces what was shown before.
ShowProgress = Callable[[str, ProgressText], None]


class NullStream(io.StringIO):
    """A stream that discards what is written."""

    def write(self, text: str) -> int:
        """Discard the text."""
        return len(text)


class PlainConsole(Console):
    """A Console that lets the command decide what happens when nobody reads its output."""

    def on_broken_pipe(self) -> None:
        """Tell the command."""
        raise BrokenPipeError


class Screen:
    """The output for people and programs; only terminals get colours and wrapping."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = _console(out)
        self._err = _console(err)
        # Lines that are printed while bars are shown go above them if both use the same terminal.
        self._above: Console | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether somebody reads the answer on a terminal."""
        return self._out.is_terminal

    @property
    def _answer(self) -> Console:
        return self._above or self._out

    def say(self, line: str) -> None:
        """Print a line of the answer."""
        self._answer.print(_text(line))

    def note(self, line: str) -> None:
        """Print a line beside the answer."""
        self._err.print(_text(line))

    def table(self, table: Table, *, is_wide: bool = False) -> list[str]:
        """Print a table that fits the width of the terminal, or 80 columns; return what it lacks.

        Extra columns are left out, then texts are wrapped. With `is_wide`, nothing is.
        """
        left_out: list[str] = []
        width = UNBOUNDED
        if not is_wide:
            width = shutil.get_terminal_size().columns
            table, left_out = _fit_columns(table, width)
        console = self._answer
        console.print(Text(table.title, "bold"))
        if not table.rows:
            console.print(Text(EMPTY, "dim"))
        elif console.is_terminal:
            console.print(_rich_table(table, width), crop=False)
        else:
            with console.capture() as capture:
                console.print(_rich_table(table, width))
            lines = capture.get().splitlines()
            self.text("".join(f"{line.rstrip()}\n" for line in lines))
        console.print()
        return left_out

    def json(self, value: object) -> None:
        """Print the whole answer as JSON."""
        self.text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def json_line(self, value: object) -> None:
        """Print one of several JSON documents on its own line, at once."""
        self.text(json.dumps(value, ensure_ascii=False) + "\n")

    def text(self, text: str) -> None:
        """Print text unchanged."""
        self._out.file.write(text)
        self._out.file.flush()

    def source(self, source: str) -> None:
        """Print a source: unchanged into a file, on a terminal without control characters."""
        if self._out.is_terminal:
            self.marked(("", line) for line in source.splitlines())
        else:
            self.text(source)

    def marked(self, lines: Iterable[tuple[str, str]]) -> None:
        """Print lines of the answer, coloured by their kinds."""
        for mark, line in lines:
            self._answer.print(Text(escape_control_characters(line), MARKS.get(mark, "")))

    def show_lines(self) -> ShowProgress:
        """Return a function that prints progress beside the answer, a line per change."""
        last_sentences: dict[str, str] = {}

        def show_line(key: str, news: ProgressText) -> None:
            if last_sentences.get(key) != news.sentence:
                last_sentences[key] = news.sentence
                self.note(f"{key}: {news.whole}")

        return show_line

    @contextmanager
    def live(self, keys: Sequence[str]) -> Iterator[ShowProgress]:
        """Show progress beside the answer: bars on a terminal, else a line per change."""
        if not self._err.is_terminal:
            yield self.show_lines()
            return
        with _bars(self._err) as progress:
            tasks = {
                key: progress.add_task(escape_control_characters(key), sentence="", total=None)
                for key in keys
            }

            def show_bar(key: str, news: ProgressText) -> None:
                sentence = escape_control_characters(news.whole)
                if news.is_over:
                    progress.update(tasks[key], completed=1, total=1, sentence=sentence)
                    progress.stop_task(tasks[key])
                else:
                    total = news.total or None
                    progress.update(
                        tasks[key], completed=news.completed, total=total, sentence=sentence
                    )

            self._above = self._err if self._out.is_terminal else None
            try:
                yield show_bar
            finally:
                self._above = None


class _KnownBar(BarColumn):
    """A bar if the total is known, else nothing."""

    def render(self, task: Task) -> ProgressBar | Text:  # type: ignore[override]
        return Text(" " * BAR_WIDTH) if task.total is None else super().render(task)


def _bars(console: Console) -> Progress:
    # The sentence alone is shortened where the line has no room for all.
    sentence = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        _KnownBar(bar_width=BAR_WIDTH),
        TimeElapsedColumn(),
        TextColumn("{task.fields[sentence]}", markup=False, table_column=sentence),
    )
    return Progress(*columns, console=console, transient=True, expand=True)


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


def _fit_columns(table: Table, width: int) -> tuple[Table, list[str]]:
    """Leave out extra columns, first those without any value, until the lines fit a width.

    Also return the names of those that have values.
    """
    with_values = [
        name
        for name, *values in zip(table.columns, *table.rows, strict=True)
        if any(value not in ("", NO_VALUE) for value in values)
    ]
    left_out = []
    for name in sorted(table.extra, key=with_values.__contains__):
        if _line_width(table) <= width:
            break
        if name in with_values:
            left_out.append(name)
        table = table.without(name)
    return table, left_out


def _line_width(table: Table) -> int:
    columns = zip(table.columns, *table.rows, strict=True)
    return sum(max(map(cell_len, cells)) + GAP for cells in columns) - GAP


def _rich_table(table: Table, width: int) -> RichTable:
    rich_table = RichTable(
        box=None, pad_edge=False, padding=(0, GAP, 0, 0), width=min(width, _line_width(table))
    )
    for name in table.columns:
        is_number = name in NUMBERS
        rich_table.add_column(
            Text(name, "bold"),
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
        )
    for row in table.rows:
        rich_table.add_row(*(Text(value, STYLES.get(value, "")) for value in row))
    return rich_table


def _text(line: str) -> Text:
    return Text(escape_control_characters(line))
