"""A profile shows what ran, within limits; an empty one is an error."""

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.worker import native, programs
from harness.worker.programs import EmptyProfile, profile_call, require_measurements

from .builds import CPP, built, contents


@dataclass
class Row:
    """A row of the profiler's averages."""

    cpu_time_total: float
    device_time_total: float


@pytest.fixture
def pages() -> Iterator[tuple[int, int]]:
    """Memories for a trace and a table."""
    trace, table = os.memfd_create("trace"), os.memfd_create("table")
    yield trace, table
    os.close(trace)
    os.close(table)


def test_the_trace_and_the_table_show_what_ran(torch: Any, pages: tuple[int, int]) -> None:
    x = torch.randn(64, 64)
    profile_call(lambda: x @ x, *pages)
    trace = json.loads(gzip.decompress(contents(pages[0])))
    assert {"aten::mm", "custom_kernel"} <= {event.get("name") for event in trace["traceEvents"]}
    table = contents(pages[1]).decode()
    assert "aten::mm" in table
    assert "Self CPU" in table


@pytest.mark.usefixtures("gxx")
def test_a_native_kernel_has_a_profile(
    tmp_path: Path, torch: Any, memory: int, pages: tuple[int, int]
) -> None:
    built(tmp_path, "submission.cpp", CPP, memory)
    call = native.load_built_kernel(os.dup(memory)).bind([torch.zeros(1000)], [torch.zeros(1000)])
    profile_call(lambda: call(b""), *pages)
    assert "custom_kernel" in contents(pages[1]).decode()


def test_an_error_of_the_call_is_its_own(pages: tuple[int, int]) -> None:
    with pytest.raises(ZeroDivisionError):
        profile_call(lambda: 1 / 0, *pages)
    assert contents(pages[0]) == contents(pages[1]) == b""


def test_warming_up_leaves_nothing_in_the_next_profile(torch: Any, pages: tuple[int, int]) -> None:
    programs.warm_up_profiler()
    profile_call(torch.randn(4).exp, *pages)
    rows = contents(pages[1]).decode().splitlines()
    assert len([row for row in rows if "custom_kernel" in row]) == 1


def test_profiles_of_one_process_are_apart(torch: Any, pages: tuple[int, int]) -> None:
    x = torch.randn(4)
    profile_call(x.exp, *pages)
    trace, table = os.memfd_create("trace"), os.memfd_create("table")
    profile_call(x.cos, trace, table)
    text = contents(table).decode()
    assert "aten::cos" in text
    assert "aten::exp" not in text
    os.close(trace)
    os.close(table)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("rows", "has_gpu", "text"),
    [
        ([], False, "no call was recorded"),
        ([Row(0, 0)], False, "no call was recorded"),
        ([Row(float("nan"), 0)], False, "no call was recorded"),
        ([], True, "no kernel ran on the GPU"),
        ([Row(5, 0)], True, "no kernel ran on the GPU"),
    ],
)
def test_an_empty_profile_is_an_error(rows: list[Row], has_gpu: bool, text: str) -> None:
    with pytest.raises(EmptyProfile, match=f"the profile is empty: {text}"):
        require_measurements(rows, has_gpu=has_gpu)


def test_a_profile_with_time_in_it_is_not_empty() -> None:
    require_measurements([Row(0, 0), Row(5, 0)], has_gpu=False)
    require_measurements([Row(5, 1)], has_gpu=True)


def test_a_trace_fits_what_a_report_may_hold() -> None:
    assert programs.TRACE_BYTES_MAX == 16 * 1024**2
