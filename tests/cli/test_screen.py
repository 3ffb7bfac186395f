"""What is printed, on a terminal and in a pipe."""

import io
import json
import re
from collections.abc import Callable

import pytest

from shared.presentation.report_parts import ProgressText
from warpboard.domain.output import Table
from warpboard.screen import Screen

TABLE = Table("cases", ("case", "verdict", "time"), [("size=64", "passed", "1 µs")])


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_no_colours_and_no_wrapping() -> None:
    out = io.StringIO()
    wide = Table("wide", ("case", "message"), [("size=64", "word " * 100)])
    screen = Screen(out, io.StringIO())
    screen.table(TABLE)
    screen.table(wide, is_wide=True)
    assert "\x1b" not in out.getvalue()
    assert ("word " * 100).strip() in out.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_table_leaves_out_extra_columns_and_wraps_the_rest(
    stream: Callable[[], io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = stream()
    row = ("size=64", "1 µs", "word " * 10, "-", "x" * 50)
    table = Table(
        *("cases", ("case", "time", "message", "tier", "code"), [row]),
        extra=("time", "tier", "message"),
    )
    assert Screen(out, io.StringIO()).table(table) == ["time", "message"]
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert [line.split() for line in lines] == [
        *(["cases"], ["case", "code"], ["size=64", "x" * 31], ["x" * 19], []),
    ]


def test_a_terminal_gets_colours() -> None:
    out = Terminal()
    Screen(out, io.StringIO()).table(TABLE)
    assert "\x1b[32mpassed" in out.getvalue()


def test_bars_have_room_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    err = Terminal()
    with Screen(io.StringIO(), err).live(["submission 12"]) as show:
        show("submission 12", ProgressText("queued: place 3, " + "many words " * 20, 1, 2))
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err.getvalue()).splitlines()
    line = next(line for line in reversed(lines) if "queued" in line)
    assert "submission 12 ━" in line
    assert "0:00:00 queued: place 3" in line


def test_an_empty_table_says_so() -> None:
    out = io.StringIO()
    Screen(out, io.StringIO()).table(Table("queue", ("state",), []))
    assert "nothing yet" in out.getvalue()


def test_square_brackets_are_text() -> None:
    out = io.StringIO()
    Screen(out, io.StringIO()).say("[red]x[0] :smile:")
    assert out.getvalue() == "[red]x[0] :smile:\n"


def test_foreign_commands_are_shown_not_obeyed() -> None:
    out = Terminal()
    Screen(out, io.StringIO()).say("a\x1b[2Jb")
    assert "\x1b[2J" not in out.getvalue()


def test_json_is_one_document_on_stdout() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err)
    screen.note("beside")
    screen.json({"reason": "größer"})
    assert json.loads(out.getvalue()) == {"reason": "größer"}
    assert err.getvalue() == "beside\n"


def test_progress_in_a_pipe_is_a_line_a_change() -> None:
    err = io.StringIO()
    with Screen(io.StringIO(), err).live(["submission 1"]) as show:
        for sentence in ("received", "received", "running"):
            show("submission 1", ProgressText(sentence))
    assert err.getvalue() == "submission 1: received\nsubmission 1: running\n"


def test_progress_on_a_terminal_is_gone_at_the_end() -> None:
    out, err = Terminal(), Terminal()
    with Screen(out, err).live(["submission 1"]) as show:
        show("submission 1", ProgressText("[b]check[/b], case 1 of 5", 0, 5))
    assert "[b]check[/b], case 1 of 5" in err.getvalue()
    assert err.getvalue().rstrip().endswith("\x1b[2K")
    assert out.getvalue() == ""


def test_what_is_over_keeps_its_last_word() -> None:
    err = Terminal()
    with Screen(io.StringIO(), err).live(["first", "second"]) as show:
        show("second", ProgressText("running"))
        show("first", ProgressText("passed", is_over=True))
    output = err.getvalue()
    assert output.rindex("first") < output.rindex("passed") < output.rindex("second")
