"""The referee's kernels and constants agree, and compile where a compiler is installed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.devices.cuda import driver, gate, memory
from harness.worker import cuda as guest

FOLDER = Path(driver.__file__).parent / driver.FOLDER
NVCC = shutil.which("nvcc")


def text(file: str) -> str:
    return (FOLDER / f"{file}.cu").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", driver.NAMES)
def test_every_kernel_in_a_file_is_loaded_by_its_name(file: str) -> None:
    found = re.findall(
        r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\)\s*)?(\w+)', text(file)
    )
    assert tuple(found) == driver.NAMES[file]


def test_referee_kernels_and_guest_mean_the_same_mailbox() -> None:
    words = dict(re.findall(r"(REVEAL|DONE) = (\d+)", text("gate")))
    assert 4 * int(words["REVEAL"]) == memory.REVEAL_AT == guest._REVEAL_AT
    assert 4 * int(words["DONE"]) == memory.DONE_AT == guest._DONE_AT


def test_the_referee_reads_the_words_that_its_kernels_write() -> None:
    states = re.search(r"enum State \{(.+?)\}", text("gate"))
    decisions = re.search(r"enum Decision \{(.+?)\}", text("gate"))
    assert states is not None
    assert decisions is not None
    names = states[1].replace(" ", "").split(",")
    assert names.index("DECISION") == gate._DECISION
    assert names.index("LATE") == gate._LATE
    assert decisions[1].replace(" ", "").split(",").index("ALONE") == gate._WAS_ALONE
    assert 4 * (len(names) + 1) <= gate._STATE_BYTES


@pytest.mark.long
@pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("file", driver.NAMES)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100"])
def test_the_kernels_compile_without_a_warning(
    file: str, architecture: str, tmp_path: Path
) -> None:
    command = [str(NVCC), "-cubin", f"-arch={architecture}", "-Werror", "all-warnings"]
    out = str(tmp_path / "kernel.cubin")
    done = subprocess.run(
        [*command, "-o", out, str(FOLDER / f"{file}.cu")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
