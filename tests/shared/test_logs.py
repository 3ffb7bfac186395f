"""A log line is one JSON object of bounded size."""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from shared import lifecycle


class Line:
    """The only line that was logged."""

    def __init__(self) -> None:
        self.stderr = io.StringIO()

    def read(self) -> dict[str, Any]:
        text = self.stderr.getvalue()
        assert text.count("\n") == 1
        assert len(text.encode()) <= lifecycle.LINE_BYTES_MAX + 1
        fields = json.loads(text)
        assert isinstance(fields, dict)
        return fields


@pytest.fixture
def line() -> Iterator[Line]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    line = Line()
    with contextlib.redirect_stderr(line.stderr):
        lifecycle.configure_logging("ranker")
    yield line
    logging.captureWarnings(capture=False)
    root.handlers[:] = before
    root.setLevel(level)


def test_a_message_stands_beside_its_fields(line: Line) -> None:
    logging.getLogger("ranker.service").info("job %s was queued", "j1", extra={"wait_s": 0.5})
    fields = line.read()
    assert fields.pop("at").endswith("+00:00")
    assert fields == {
        "level": "info",
        "service": "ranker",
        "message": "job j1 was queued",
        "logger": "ranker.service",
        "wait_s": 0.5,
    }


def test_an_exception_is_one_field(line: Line) -> None:
    try:
        int("no number")
    except ValueError:
        logging.getLogger("x").exception("the lease of job j1 is unknown")
    fields = line.read()
    assert fields["message"] == "the lease of job j1 is unknown"
    assert fields["exception"].startswith("Traceback")
    assert "no number" in fields["exception"].splitlines()[-1]


def test_a_long_field_keeps_its_head_and_tail(line: Line) -> None:
    logging.getLogger("x").error("job j1 failed", extra={"output": f"first{'é' * 99_999}last"})
    fields = line.read()
    assert fields["message"] == "job j1 failed"
    assert fields["output"].startswith("first")
    assert fields["output"].endswith("last")


def test_many_long_fields_still_fit(line: Line) -> None:
    fields = {f"field_{number}": "x" * 100 for number in range(2000)}
    logging.getLogger("x").error("job j1 failed", extra=fields)
    assert line.read()["message"] == "job j1 failed"


def test_a_value_that_is_no_json_is_told_as_text(line: Line) -> None:
    logging.getLogger("x").info("it is", extra={"kind": int, "bytes": b"\xff"})
    assert line.read()["kind"] == "<class 'int'>"


def test_a_warning_of_python_is_a_log_line(line: Line) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("this will go away", stacklevel=1)
    assert "this will go away" in line.read()["message"]
