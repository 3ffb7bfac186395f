"""One call under torch's profiler: a trace for a viewer, and a table to read."""

import gzip
import importlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

TRACE_BYTES_MAX = 16 * 1024**2
TABLE_BYTES_MAX = 256 * 1024

# Below what a worker may write to one file: a trace that was cut is not shown.
_RAW_BYTES_MAX = 48 * 1024**2
_ROWS_MAX = 40
_LABEL = "custom_kernel"


class EmptyProfile(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """Nothing was captured: a page without a measurement helps nobody."""


def warm() -> None:
    """Imports and starts what the first profile of a process needs, which takes seconds."""
    _recorded(lambda: None).key_averages().table()


def profile(call: Callable[[], object], trace: int, table: int) -> None:
    """Makes the call once; the trace (gzipped JSON) and the table go into two memories.

    A trace of more than 16 MiB is left out, and the table says so.
    Errors: EmptyProfile; whatever the call raises.
    """
    recorded = _recorded(call)
    rows, has_gpu = recorded.key_averages(), _has_gpu()
    require_some(rows, has_gpu=has_gpu)
    packed = _trace(recorded)
    order = f"self_{'device' if has_gpu else 'cpu'}_time_total"
    text = rows.table(sort_by=order, row_limit=_ROWS_MAX)
    if packed:
        _write(trace, packed)
    else:
        text += f"\nThe trace is left out: more than {TRACE_BYTES_MAX} bytes.\n"
    _write(table, text.encode()[:TABLE_BYTES_MAX])


def require_some(rows: Any, *, has_gpu: bool) -> None:
    """Errors: EmptyProfile, unless some time was seen; on a GPU, some time of the GPU's."""
    times = [row.device_time_total if has_gpu else row.cpu_time_total for row in rows]
    if not any(time > 0 for time in times):
        what = "no kernel ran on the GPU" if has_gpu else "no call was seen"
        raise EmptyProfile(f"the profile is empty: {what}")


def _recorded(call: Callable[[], object]) -> Any:
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


def _trace(recorded: Any) -> bytes:
    """The trace, gzipped; nothing, if it is larger than is kept."""
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
