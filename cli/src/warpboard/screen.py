"""The output: answers to stdout, everything else to stderr."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from shared.presentation.report_parts import WORDS, ProgressText
from shared.presentation.units import escape_control_characters
from warpboard.domain.tables import NUMBERS, Table

# Lines for programs never wrap.
UNBOUNDED = 100_000
BAR_WIDTH = 12
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
    def _answer(self) -> Console:
        return self._above or self._out

    def say(self, line: str) -> None:
        """Print a line of the answer."""
        self._answer.print(_text(line))

    def note(self, line: str) -> None:
        """Print a line beside the answer."""
        self._err.print(_text(line))

    def table(self, table: Table) -> None:
        """Print a table; without a terminal its columns are two spaces apart."""
        if not self._out.is_terminal:
            self.text("\n".join((table.title, *_plain_lines(table), "", "")))
            return
        rich_table = RichTable(title=None, box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in table.columns:
            rich_table.add_column(Text(name, "bold"), justify=_justify(name))
        for row in table.rows:
            rich_table.add_row(*(Text(value, STYLES.get(value, "")) for value in row))
        self._answer.print(Text(table.title, "bold"))
        self._answer.print(rich_table if table.rows else Text(EMPTY, "dim"))
        self._answer.print()

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

    @contextmanager
    def live(self, keys: Sequence[str]) -> Iterator[ShowProgress]:
        """Show progress beside the answer: bars on a terminal, else a line per change."""
        if not self._err.is_terminal:
            last_sentences: dict[str, str] = {}

            def show_line(key: str, news: ProgressText) -> None:
                if last_sentences.get(key) != news.sentence:
                    last_sentences[key] = news.sentence
                    self.note(f"{key}: {news.whole}")

            yield show_line
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
                    progress.update(tasks[key], completed=news.done, total=total, sentence=sentence)

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


def _plain_lines(table: Table) -> Iterator[str]:
    """Yield a table's lines for a pipe, without padding at their ends."""
    if not table.rows:
        yield EMPTY
        return
    rows = [table.columns, *table.rows]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(table.columns))]
    for row in rows:
        cells = []
        for text, width, name in zip(row, widths, table.columns, strict=True):
            padding = " " * (width - cell_len(text))
            cells.append(padding + text if _justify(name) == "right" else text + padding)
        yield "  ".join(cells).rstrip()


def _justify(column: str) -> Literal["left", "right"]:
    return "right" if column in NUMBERS else "left"


def _text(line: str) -> Text:
    return Text(escape_control_characters(line))
