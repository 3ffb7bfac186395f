"""One call of a submission under ncu: its report, a text to read and a table, into memories.

It runs in a box of its own and is believed as little as the submission, which can falsify all of
it: whoever does that only deceives himself.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.worker import settings
from harness.worker.build import Unusable
from harness.worker.builder import shortened
from harness.worker.protocol import (
    CSV_BYTES_MAX,
    PAGE_BYTES_MAX,
    REPORT_BYTES_MAX,
    TEXT_CHARS_MAX,
)

# How ncu says that this account may not read a GPU's counters: the operator's matter.
_NOT_ALLOWED = b"ERR_NVGPUCTRPERM"
_SAID_BYTES_MAX = 16 * 1024**2
_GAP_BYTES = 100
_NO_NUMBERS = ("", "n/a", "nan", "-nan")


class EmptyCapture(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The profiler ran and measured nothing."""


def capture(order: dict[str, Any], descriptors: list[int], path: Path) -> None:
    """Carries out an order of harness.supervisor.captured for the submission at `path`.

    The descriptors are of the three results (report, text, table), of the program that ncu runs,
    then of the memories that it is given. Where ncu may not read the counters, the text says so
    and there is no report. Errors: Unusable, of kind exception.
    """
    settings.add(order["environment"])
    report, text, table, program, *memories = descriptors
    made = Path(order["report"])
    asked = made.with_name("replay.json")
    known = {"path": str(path), "memories": [_path_of(one) for one in memories]}
    asked.write_text(json.dumps(order["replay"] | known), encoding="utf-8")
    python = (sys.executable, "-I", "-B", "-X", "faulthandler", _path_of(program), str(asked))
    status, said = _run((*order["command"], *python), made.with_name("said.txt"))
    if _NOT_ALLOWED in said:
        _write(text, shortened(said, PAGE_BYTES_MAX - _GAP_BYTES))
        return
    if status:
        raise _failure(f"ncu ended with status {status}", said)
    if not made.is_file():
        raise _failure("ncu made no report", said)
    pages = {name: _page(line, made.with_name(name)) for name, line in order["pages"].items()}
    _require_capture(pages["csv"])
    page = shortened(pages["text"], PAGE_BYTES_MAX - 2 * _GAP_BYTES)
    if made.stat().st_size <= REPORT_BYTES_MAX:
        _write(report, made.read_bytes())
    else:
        page += b"\nThe report is left out: more than %d bytes.\n" % REPORT_BYTES_MAX
    _write(text, page)
    _write(table, _whole_lines(pages["csv"], CSV_BYTES_MAX))


def require_capture(raw: str) -> int:
    """How many kernels a raw page tells of.

    Errors: EmptyCapture, if there is none, or none has a number.

    >>> require_capture('"ID","Kernel Name","gpu__time_duration.sum"\\n"","","us"\\n"0","k","5.1"')
    1
    """
    lines = [line for line in raw.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("ID")]
    if not rows:
        raise EmptyCapture("the profile is empty: no kernel was profiled")
    if not any(_is_measured(row) for row in rows):
        raise EmptyCapture("the profile is empty: no metric of a kernel has a value")
    return len(rows)


def _require_capture(raw: bytes) -> None:
    try:
        require_capture(raw.decode(errors="replace"))
    except (EmptyCapture, csv.Error) as error:
        raise Unusable("exception", str(error)) from error


def _is_measured(row: dict[str, str]) -> bool:
    metrics = [value for name, value in row.items() if name and "__" in name]
    return any(value is not None and value.lower() not in _NO_NUMBERS for value in metrics)


def _path_of(descriptor: int) -> str:
    """A file of this process for one that ncu starts, whatever ncu does to descriptors."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _run(arguments: Sequence[str], output: Path) -> tuple[int, bytes]:
    """A program's exit status and what it said, into a file: a page is more than a pipe holds."""
    try:
        with output.open("wb") as file:
            ended = subprocess.run(
                arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            )
    except OSError as error:
        raise Unusable("exception", f"ncu cannot be run here: {error}") from error
    with output.open("rb") as file:
        return ended.returncode, file.read(_SAID_BYTES_MAX)


def _page(line: Sequence[str], output: Path) -> bytes:
    status, said = _run(line, output)
    if status:
        raise _failure(f"ncu ended with status {status} and cannot read its own report", said)
    return said


def _failure(reason: str, said: bytes) -> Unusable:
    room = TEXT_CHARS_MAX - len(reason) - _GAP_BYTES
    words = shortened(said, room).decode(errors="replace").strip()
    return Unusable("exception", f"{reason}: {words}" if words else reason)


def _whole_lines(data: bytes, bytes_max: int) -> bytes:
    if len(data) <= bytes_max:
        return data
    return data[: data.rfind(b"\n", 0, bytes_max) + 1]


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        memory.write(data)
