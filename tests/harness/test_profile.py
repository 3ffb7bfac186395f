"""Profiles from the request to the report; ncu is replaced by a stand-in, as there is no GPU."""

import gzip
import json
import runpy
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.build import command
from harness.entry import RunReport, isolation
from shared.presentation.run_files import read_kernel_usage
from tests.support.harness import HONEST, Host, Warm
from tests.toolchains.builds import CPP

pytestmark = [pytest.mark.box, pytest.mark.long]  # One of its runs hangs until its stage is over.
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing here")

STANDIN = Path(__file__).parent / "standin" / "ncu"
ROWS = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","us"\n"0","copy","5.1"\n'
TELLING = """
import os
def custom_kernel(data):
    print(f"pid {os.getpid()} was given {data[0].double().sum():.6f}", flush=True)
    data[1].copy_(data[0])
    data[0].zero_()
    return data[1]
"""
FAILING = """
import sys, time
def custom_kernel(data):
    if "replay" in sys.argv[-1]:
        raise ValueError("not under ncu")
    data[1].copy_(data[0])
    return data[1]
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The stand-in's folder, readable for workers; files beside it control what it reports."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(STANDIN, folder)
        yield folder


@pytest.fixture(scope="module")
def with_ncu(folder: Path) -> Iterator[Warm]:
    """A harness on a machine that has the stand-in."""
    warm = Warm(ncu=str(folder / "ncu"))
    yield warm
    warm.close()


@pytest.fixture
def profiled(tmp_path: Path, with_ncu: Warm, folder: Path) -> Host:
    """A host whose submissions are profiled by the stand-in, which reports one kernel."""
    (folder / "rows.csv").write_text(ROWS)
    return Host(tmp_path, with_ncu)


@pytest.mark.feature("P8")
def test_a_profile_is_a_trace_and_a_table_of_every_case(host: Host) -> None:
    report = host.run(HONEST, "profile")
    assert report.verdict == "passed", report.reason
    assert [one.name for one in report.artefacts] == [
        "profile-0-trace.json.gz",
        "profile-0-table.txt",
        "profile-1-trace.json.gz",
        "profile-1-table.txt",
    ]
    trace = json.loads(gzip.decompress((host.out / "profile-0-trace.json.gz").read_bytes()))
    assert "custom_kernel" in {one.get("name") for one in trace["traceEvents"]}
    assert "aten::copy_" in (host.out / "profile-1-table.txt").read_text()


@pytest.mark.feature("P27")
@pytest.mark.skipif(
    not (command.find_cuobjdump() and command.find_program("nvcc")),
    reason="nvcc or cuobjdump is missing here",
)
def test_the_gpu_kernels_in_a_submissions_caches_are_listed(host: Host, tmp_path: Path) -> None:
    source, cubin = tmp_path / "kernel.cu", tmp_path / "kernel.cubin"
    source.write_text('extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }')
    nvcc = [command.find_program("nvcc"), "-cubin", "-arch=sm_90a", "-o", str(cubin)]
    subprocess.run([*nvcc, str(source)], check=True, timeout=100)
    writing = f"""\
import os
with open(os.environ["TRITON_CACHE_DIR"] + "/kernel.cubin", "wb") as file:
    file.write(bytes.fromhex("{cubin.read_bytes().hex()}"))
"""
    making = 'import os\nos.makedirs(os.environ["TRITON_CACHE_DIR"], exist_ok=True)\n'
    report = host.run(making + writing + HONEST, "profile")
    assert report.verdict == "passed", report.reason
    assert _names(report)[:2] == ["kernels.txt", "kernels.sass"]
    (usage,) = read_kernel_usage((host.out / "kernels.txt").read_bytes())
    assert (usage.kernel, usage.shared_bytes, usage.local_bytes) == ("twice", 0, 0)
    assert "Function : twice" in (host.out / "kernels.sass").read_text()


def test_one_case_alone_is_profiled(host: Host) -> None:
    report = host.warm.evaluate(host.request(HONEST, "profile", case=2), host.told)
    assert [one.name for one in report.artefacts] == [
        "profile-0-trace.json.gz",
        "profile-0-table.txt",
    ]
    [profiled] = [one.name for one in report.cases if one.stage == "profile"]
    assert "32" in profiled
    for case in (3, -1):
        lost = host.warm.evaluate(host.request(HONEST, "profile", case=case), host.told)
        said = f"there is no timed case {case}, only 2"
        assert (lost.failure_code, lost.reason) == ("problem_fault", said)


def test_ncu_runs_two_calls_of_each_case_on_its_published_input(profiled: Host) -> None:
    report = profiled.run(TELLING, "profile")
    assert report.verdict == "passed", report.reason
    assert _names(report)[2:5] == [
        "profile-0-ncu.ncu-rep",
        "profile-0-ncu.txt",
        "profile-0-ncu.csv",
    ]
    assert len(report.artefacts) == 10
    expected = f"was given {_published_sum(size=16, seed=3):.6f}"
    _, *lines = (profiled.out / "profile-0-ncu.ncu-rep").read_text().splitlines()
    assert [line[line.index("was") :] for line in lines] == [expected, expected]
    assert "A page of the stand-in." in (profiled.out / "profile-1-ncu.txt").read_text()
    assert (profiled.out / "profile-1-ncu.csv").read_text() == ROWS


def test_ncu_captures_the_requested_kernels_alone(profiled: Host) -> None:
    request = profiled.request(
        TELLING,
        "profile",
        case=1,
        ncu_kernel_name="regex:copy|two words",
        ncu_kernel_name_base="demangled",
        ncu_launch_count=3,
    )
    report = profiled.warm.evaluate(request, profiled.told)
    assert report.verdict == "passed", report.reason
    first, *_ = (profiled.out / "profile-0-ncu.ncu-rep").read_text().splitlines()
    assert " --kernel-name=regex:copy|two words --kernel-name-base=demangled" in first
    assert " --launch-count=3 " in first


@needs_compiler
def test_a_native_kernel_is_profiled_by_ncu(profiled: Host) -> None:
    report = profiled.run(CPP.replace("x[i] + 1", "x[i]"), "profile", suffix=".cpp", case=1)
    assert report.verdict == "passed", report.reason
    assert "profile-0-ncu.ncu-rep" in _names(report)


@pytest.mark.feature("P8")
def test_an_empty_capture_ends_the_stage(profiled: Host, folder: Path) -> None:
    (folder / "rows.csv").write_text("==WARNING== No kernels were profiled.\n")
    report = profiled.run(HONEST, "profile")
    assert (report.verdict, report.stage) == ("crashed", "profile")
    assert report.reason.endswith("the profile is empty: no kernel was profiled")
    assert _names(report) == ["profile-0-trace.json.gz", "profile-0-table.txt"]


def test_a_submission_that_fails_under_ncu_is_told_why(profiled: Host) -> None:
    report = profiled.run(FAILING, "profile")
    assert (report.verdict, report.stage) == ("crashed", "profile")
    assert "ValueError: not under ncu" in report.reason
    assert "/submission" not in report.reason


def test_a_submission_that_hangs_under_ncu_ends_with_the_stage(profiled: Host) -> None:
    profiled.budgets_s = {"benchmark": 20.0}
    report = profiled.run(
        FAILING.replace('raise ValueError("not under ncu")', "time.sleep(600)"), "profile"
    )
    assert (report.verdict, report.stage) == ("timed_out", "profile")
    assert report.reason.endswith("ncu used up the stage's budget")


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("ERR_NVGPUCTRPERM - no permission to access counters", "permission: the operator"),
        ("Profiling is not supported on a MIG instance", "MIG: the GPU is divided"),
        ("Cuda driver is not compatible with Nsight Compute", "driver: it does not fit"),
    ],
)
def test_a_machine_that_refuses_counters_ends_without_a_verdict(
    tmp_path: Path, folder: Path, said: str, cause: str
) -> None:
    # A box shows what was there when its harness started.
    (folder / "refused").write_text(f"==ERROR== {said}.\n")
    warm = Warm(ncu=str(folder / "ncu"))
    try:
        report = Host(tmp_path, warm).run(HONEST, "profile", case=1)
    finally:
        warm.close()
        (folder / "refused").unlink()
    assert (report.verdict, report.failure_code) == ("", "profiler"), report.reason
    assert f"ncu counted nothing on this machine. {cause}" in report.reason
    assert said in report.reason


def test_a_kernel_without_a_number_is_the_fault_of_the_machine(
    profiled: Host, folder: Path
) -> None:
    (folder / "rows.csv").write_text(ROWS + '"1","copy","nan"\n')
    report = profiled.run(HONEST, "profile", case=1)
    assert (report.verdict, report.failure_code) == ("", "profiler"), report.reason
    assert "no metric of a kernel has a value; permission, MIG or driver" in report.reason


def test_bubblewrap_shows_ncu_to_its_boxes_too(tmp_path: Path, folder: Path) -> None:
    found = isolation()
    if not found.has_bubblewrap:
        pytest.skip(f"no bubblewrap: {found.launchers[0].fix}")
    (folder / "rows.csv").write_text(ROWS)
    warm = Warm(ncu=str(folder / "ncu"), launcher="bubblewrap")
    try:
        report = Host(tmp_path, warm).run(HONEST, "profile", case=1)
    finally:
        warm.close()
    assert report.verdict == "passed", report.reason
    assert "profile-0-ncu.ncu-rep" in _names(report)


def _names(report: RunReport) -> list[str]:
    return [one.name for one in report.artefacts]


def _published_sum(**case: int) -> float:
    path = Path(__file__).parent / "problem" / "reference.py"
    matrix, _ = runpy.run_path(str(path))["generate_input"](**case)
    return float(matrix.double().sum())


def test_a_saved_table_moves_nobodys_cursor(host: Host) -> None:
    red = f"""\
from torch.profiler import record_function
{HONEST}
plain = custom_kernel
def custom_kernel(data):
    with record_function(chr(27) + "[31mred"):
        return plain(data)
"""
    report = host.run(red, "profile", case=1)
    assert report.verdict == "passed", report.reason
    table = (host.out / "profile-0-table.txt").read_bytes()
    assert b"\\x1b[31mred" in table
    assert b"\x1b" not in table
