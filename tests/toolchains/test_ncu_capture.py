"""ncu's output is bounded, and an empty capture is an error."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.worker import programs, protocol
from harness.worker.protocol import SubmissionFailure

from .builds import contents

HEAD = '"ID","Kernel Name","gpu__time_duration.sum","sm__throughput.avg.pct"\n"","","us","%"\n'
ROW = '"0","copy","5.1","3"\n'


@pytest.fixture
def memories() -> Iterator[list[int]]:
    """Memories for a report, a text and a table, and one with the program."""
    found = [os.memfd_create(name) for name in ("report", "text", "table", "program")]
    yield found
    for one in found:
        os.close(one)


def ordered(folder: Path, *, table: str, report: int = 10, text: int = 10) -> dict[str, Any]:
    """An order to a tool that always produces existing files of this size."""
    for name, size in (("made.ncu-rep", report), ("text.page", text)):
        (folder / name).write_bytes(b"x" * size)
    (folder / "csv.page").write_text(table)
    return {
        "environment": {},
        "command": ["true"],
        "report": str(folder / "made.ncu-rep"),
        "pages": {name: ["cat", str(folder / f"{name}.page")] for name in ("text", "csv")},
        "replay": {"role": {}},
    }


def captured(order: dict[str, Any], memories: list[int]) -> tuple[bytes, bytes, bytes]:
    """Report, text and table of a capture."""
    programs.run_capture(order, memories, Path("/submission/submission.py"))
    report, text, table, _ = map(contents, memories)
    return report, text, table


def test_report_text_and_table_are_handed_over(tmp_path: Path, memories: list[int]) -> None:
    found = captured(ordered(tmp_path, table=HEAD + ROW), memories)
    assert found == (b"x" * 10, b"x" * 10, (HEAD + ROW).encode())
    assert json.loads((tmp_path / "replay.json").read_text())["path"] == "/submission/submission.py"


def test_a_page_that_is_too_long_loses_its_middle(tmp_path: Path, memories: list[int]) -> None:
    order = ordered(tmp_path, table=HEAD + ROW, text=2 * protocol.PAGE_BYTES_MAX)
    _, text, _ = captured(order, memories)
    assert b"bytes are left out here" in text
    assert len(text) <= protocol.PAGE_BYTES_MAX


def test_a_table_that_is_too_long_ends_with_a_whole_line(
    tmp_path: Path, memories: list[int]
) -> None:
    rows = protocol.CSV_BYTES_MAX // len(ROW) + 1
    _, _, table = captured(ordered(tmp_path, table=HEAD + rows * ROW), memories)
    assert len(table) <= protocol.CSV_BYTES_MAX
    assert table.decode().endswith(ROW)


def test_a_report_that_is_too_large_is_left_out(tmp_path: Path, memories: list[int]) -> None:
    order = ordered(tmp_path, table=HEAD + ROW, report=protocol.REPORT_BYTES_MAX + 1)
    report, text, _ = captured(order, memories)
    assert report == b""
    assert b"The report is left out" in text


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["false"], "ncu ended with status 1"),
        (["cat"], "ncu ended with status 1: cat: invalid option"),
        (["/not/there"], "there cannot be run here"),
    ],
)
def test_a_tool_that_fails_is_quoted(
    tmp_path: Path, memories: list[int], command: list[str], text: str
) -> None:
    order = ordered(tmp_path, table=HEAD + ROW) | {"command": command}
    with pytest.raises(SubmissionFailure, match=text):
        captured(order, memories)


def test_an_empty_table_hands_nothing_over(tmp_path: Path, memories: list[int]) -> None:
    with pytest.raises(SubmissionFailure, match="the profile is empty: no kernel was profiled"):
        captured(ordered(tmp_path, table=HEAD), memories)
    assert [contents(one) for one in memories] == [b""] * 4


def test_the_profiled_kernels_are_counted() -> None:
    raw = f'==PROF== Connected\n{HEAD}"0","copy","5.1","3"\n"1","fma(float *, int)","n/a","7"\n'
    assert programs.require_capture(raw) == 2


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("", "no kernel was profiled"),
        ("==WARNING== No kernels were profiled.\n", "no kernel was profiled"),
        (HEAD, "no kernel was profiled"),
    ],
)
def test_an_empty_capture_is_an_error(raw: str, text: str) -> None:
    with pytest.raises(programs.EmptyCapture, match=f"the profile is empty: {text}"):
        programs.require_capture(raw)


@pytest.mark.parametrize(
    "row", ['"0","k","nan","n/a"', '"0","k"', '"0","a","5","1"\n"1","k","-nan"']
)
def test_a_kernel_without_a_number_is_not_the_fault_of_the_submission(
    tmp_path: Path, memories: list[int], row: str
) -> None:
    captured(ordered(tmp_path, table=f"{HEAD}{row}\n"), memories)
    report, text, table, _ = (contents(one) for one in memories)
    assert (report, table) == (b"", b"")
    assert text.startswith(
        b"ncu counted nothing on this machine. no metric of a kernel has a value"
    )


def test_a_table_that_is_none_is_an_error(tmp_path: Path, memories: list[int]) -> None:
    table = f'{HEAD}"{"x" * (csv.field_size_limit() + 1)}"\n'
    with pytest.raises(SubmissionFailure, match="field larger than field limit"):
        captured(ordered(tmp_path, table=table), memories)
