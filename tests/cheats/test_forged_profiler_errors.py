"""A submission that imitates ncu's errors gets the verdict of a crash, and its quota is used."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import Host, Warm

pytestmark = [pytest.mark.box, pytest.mark.long]

STANDIN = Path(__file__).parents[1] / "harness" / "standin" / "ncu"
ROWS = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","us"\n"0","copy","5.1"\n'
# Under ncu it prints what ncu prints without permission; then ncu ends with its exit status.
FORGED_ERROR = """
import os, sys
def custom_kernel(data):
    if "replay" in sys.argv[-1]:
        os.write(2, b"==ERROR== ERR_NVGPUCTRPERM - no permission to access counters\\n")
        os._exit(1)
    data[1].copy_(data[0])
    return data[1]
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A harness on a machine whose stand-in for ncu counts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(STANDIN, folder)
        (folder / "rows.csv").write_text(ROWS)
        warm = Warm(ncu=str(folder / "ncu"))
        yield Host(tmp_path_factory.mktemp("host"), warm)
        warm.close()


@pytest.mark.parametrize("kernel_name", ["", "regex:no kernel is called this"])
def test_a_submission_cannot_end_a_run_as_the_fault_of_the_profiler(
    profiled: Host, kernel_name: str
) -> None:
    """Not even with a filter by which ncu would not capture a kernel of the platform either."""
    request = profiled.request(FORGED_ERROR, "profile", case=1, ncu_kernel_name=kernel_name)
    report = profiled.warm.evaluate(request, profiled.told)
    assert (report.verdict, report.failure_code) == ("crashed", ""), report.reason
    assert "ERR_NVGPUCTRPERM" in report.reason
