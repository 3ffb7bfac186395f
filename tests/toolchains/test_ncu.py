"""The kernel profiler is asked in one way, and an empty capture is an error."""

import pytest

from harness.toolchains import ncu

HEAD = '"ID","Kernel Name","gpu__time_duration.sum","sm__throughput.avg.pct"\n"","","us","%"\n'


def test_the_program_comes_last_and_clocks_are_left_alone() -> None:
    line = ncu.command("/scratch/report", ("python", "-m", "harness.worker", "3", "/submission/a"))
    assert line[0] == "ncu"
    assert line[-5:] == ("python", "-m", "harness.worker", "3", "/submission/a")
    assert {"--clock-control=none", "--export=/scratch/report", "--config-file=off"} <= set(line)


def test_a_report_has_a_page_to_read_and_one_to_compute_with() -> None:
    pages = ncu.pages("/scratch/report")
    assert pages["details.txt"] == ("ncu", "--import=/scratch/report.ncu-rep", "--page=details")
    assert pages["raw.csv"][-1] == "--csv"


def test_the_profiled_kernels_are_counted() -> None:
    raw = f'==PROF== Connected\n{HEAD}"0","copy","5.1","3"\n"1","fma(float *, int)","n/a","7"\n'
    assert ncu.require_capture(raw) == 2


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("", "no kernel was profiled"),
        ("==WARNING== No kernels were profiled.\n", "no kernel was profiled"),
        (HEAD, "no kernel was profiled"),
        (f'{HEAD}"0","k","nan","n/a"\n', "no metric of a kernel has a value"),
        (f'{HEAD}"0","k"\n', "no metric of a kernel has a value"),
    ],
)
def test_an_empty_capture_is_an_error(raw: str, text: str) -> None:
    with pytest.raises(ncu.EmptyCapture, match=f"the profile is empty: {text}"):
        ncu.require_capture(raw)
