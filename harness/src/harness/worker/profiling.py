"""One call of a submission under a profiler: torch's, or ncu in its own box.

Torch's writes a trace for a viewer and a table to read; ncu a report, a text and a table. All of it
is trusted as little as the submission, which can falsify it but would deceive only its author.
"""

import csv
import gzip
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.worker import settings
from harness.worker.kernel_loader import SubmissionFailure
from harness.worker.programs import shorten_text
from harness.worker.protocol import (
    CSV_BYTES_MAX,
    PAGE_BYTES_MAX,
    REPORT_BYTES_MAX,
    TEXT_CHARS_MAX,
)

TRACE_BYTES_MAX = 16 * 1024**2
TABLE_BYTES_MAX = 256 * 1024

# Less than a worker may write to one file, since a truncated trace is useless.
_RAW_BYTES_MAX = 48 * 1024**2
_ROWS_MAX = 40
_LABEL = "custom_kernel"

# ncu's error if this account may not read a GPU's counters; the operator has to allow it.
_NOT_ALLOWED = b"ERR_NVGPUCTRPERM"
_OUTPUT_BYTES_MAX = 16 * 1024**2
_GAP_BYTES = 100
_EMPTY_VALUES = ("", "n/a", "nan", "-nan")


class EmptyProfile(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """Nothing was captured."""


def warm_up_profiler() -> None:
    """Import and start what the first profile of a process needs, which takes seconds."""
    _record_call(lambda: None).key_averages().table()


def profile_call(call: Callable[[], object], trace: int, table: int) -> None:
    """Make the call once; write the trace (gzipped JSON) and the table into two memories.

    A trace of more than 16 MiB is left out, and the table says so. Raises EmptyProfile, and
    whatever the call raises.
    """
    profile = _record_call(call)
    rows, has_gpu = profile.key_averages(), _has_gpu()
    require_measurements(rows, has_gpu=has_gpu)
    packed = _export_trace(profile)
    order = f"self_{'device' if has_gpu else 'cpu'}_time_total"
    text = rows.table(sort_by=order, row_limit=_ROWS_MAX)
    if packed:
        _write(trace, packed)
    else:
        text += f"\nThe trace is left out: more than {TRACE_BYTES_MAX} bytes.\n"
    _write(table, text.encode()[:TABLE_BYTES_MAX])


def require_measurements(rows: Any, *, has_gpu: bool) -> None:
    """Raise EmptyProfile unless some time was recorded; on a GPU, some time of the GPU."""
    times = [row.device_time_total if has_gpu else row.cpu_time_total for row in rows]
    if not any(time > 0 for time in times):
        reason = "no kernel ran on the GPU" if has_gpu else "no call was recorded"
        raise EmptyProfile(f"the profile is empty: {reason}")


def _record_call(call: Callable[[], object]) -> Any:
    torch: Any = importlib.import_module("torch")
    profiler = torch.profiler
    activities = [profiler.ProfilerActivity.CPU]
    if _has_gpu():
        activities.append(profiler.ProfilerActivity.CUDA)
    with profiler.profile(activities=activities, record_shapes=True) as recorded:
        with profiler.record_function(_LABEL):
            call()
        if _has_gpu():
            torch.cuda.synchronize()
    return recorded


def _has_gpu() -> bool:
    torch: Any = importlib.import_module("torch")
    return bool(torch.cuda.is_available())


def _export_trace(recorded: Any) -> bytes:
    """Return the trace, gzipped; b"" if it is too large."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        recorded.export_chrome_trace(str(path))
        if path.stat().st_size > _RAW_BYTES_MAX:
            return b""
        packed = gzip.compress(path.read_bytes(), compresslevel=6, mtime=0)
    return packed if len(packed) <= TRACE_BYTES_MAX else b""


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        memory.write(data)


class EmptyCapture(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The profiler ran and measured nothing."""


def run_capture(order: dict[str, Any], descriptors: list[int], path: Path) -> None:
    """Carry out an order of harness.time.unranked for the submission at `path`.

    The descriptors are the three results (report, text, table), the program that ncu runs, and the
    memories that it gets. If ncu may not read the counters, the text says so and there is no
    report. Raises SubmissionFailure of kind exception.
    """
    settings.add_environment(order["environment"])
    report, text, table, program, *memories = descriptors
    report_path = Path(order["report"])
    replay_order = report_path.with_name("replay.json")
    local_order = {"path": str(path), "memories": [_path_of(memory) for memory in memories]}
    replay_order.write_text(json.dumps(order["replay"] | local_order), encoding="utf-8")
    python = (
        sys.executable,
        "-I",
        "-B",
        "-X",
        "faulthandler",
        _path_of(program),
        str(replay_order),
    )
    status, output = _run((*order["command"], *python), report_path.with_name("said.txt"))
    if _NOT_ALLOWED in output:
        _write(text, shorten_text(output, PAGE_BYTES_MAX - _GAP_BYTES))
        return
    if status:
        raise _failure(f"ncu ended with status {status}", output)
    if not report_path.is_file():
        raise _failure("ncu made no report", output)
    pages = {
        name: _make_page(line, report_path.with_name(name)) for name, line in order["pages"].items()
    }
    try:
        require_capture(pages["csv"].decode(errors="replace"))
    except (EmptyCapture, csv.Error) as error:
        raise SubmissionFailure("exception", str(error)) from error
    page = shorten_text(pages["text"], PAGE_BYTES_MAX - 2 * _GAP_BYTES)
    if report_path.stat().st_size <= REPORT_BYTES_MAX:
        _write(report, report_path.read_bytes())
    else:
        page += b"\nThe report is left out: more than %d bytes.\n" % REPORT_BYTES_MAX
    _write(text, page)
    _write(table, _whole_lines(pages["csv"], CSV_BYTES_MAX))


def require_capture(raw: str) -> int:
    """Return how many kernels a raw page lists.

    Raises EmptyCapture if there is none, or none has a number.
    """
    lines = [line for line in raw.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("ID")]
    if not rows:
        raise EmptyCapture("the profile is empty: no kernel was profiled")
    if not any(_is_measured(row) for row in rows):
        raise EmptyCapture("the profile is empty: no metric of a kernel has a value")
    return len(rows)


def _is_measured(row: dict[str, str]) -> bool:
    metrics = [value for name, value in row.items() if name and "__" in name]
    return any(value is not None and value.lower() not in _EMPTY_VALUES for value in metrics)


def _path_of(descriptor: int) -> str:
    """Return the path of a descriptor for a process that ncu starts."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _run(arguments: Sequence[str], output: Path) -> tuple[int, bytes]:
    """Run a program; return its exit status and its output, via a file: pages exceed a pipe."""
    try:
        with output.open("wb") as file:
            process = subprocess.run(
                arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            )
    except OSError as error:
        raise SubmissionFailure("exception", f"ncu cannot be run here: {error}") from error
    with output.open("rb") as file:
        return process.returncode, file.read(_OUTPUT_BYTES_MAX)


def _make_page(line: Sequence[str], output: Path) -> bytes:
    status, page = _run(line, output)
    if status:
        raise _failure(f"ncu ended with status {status} and cannot read its own report", page)
    return page


def _failure(reason: str, output: bytes) -> SubmissionFailure:
    room = TEXT_CHARS_MAX - len(reason) - _GAP_BYTES
    excerpt = shorten_text(output, room).decode(errors="replace").strip()
    return SubmissionFailure("exception", f"{reason}: {excerpt}" if excerpt else reason)


def _whole_lines(data: bytes, bytes_max: int) -> bytes:
    if len(data) <= bytes_max:
        return data
    return data[: data.rfind(b"\n", 0, bytes_max) + 1]
