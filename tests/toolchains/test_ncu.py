"""The kernel profiler is called in one way, where it is useful."""

import io
import zipfile
from pathlib import Path

import pytest

from harness.build import plan
from harness.build.plan import Ncu

SUFFIX = plan.REPORT_SUFFIX


def test_the_program_may_follow_and_clocks_are_left_alone() -> None:
    line = plan.ncu_command("/usr/bin/ncu", "/scratch/report")
    assert line[0] == "/usr/bin/ncu"
    assert all(option.startswith("--") for option in line[1:])
    assert {"--clock-control=none", "--export=/scratch/report", "--config-file=off"} <= set(line)


def test_only_what_lies_between_the_marks_is_profiled() -> None:
    assert "--profile-from-start=off" in plan.ncu_command("ncu", "/scratch/report")


def test_a_report_has_a_page_to_read_and_one_to_compute_with() -> None:
    pages = plan.page_commands("ncu", "/scratch/report")
    assert pages["text"] == ("ncu", f"--import=/scratch/report{SUFFIX}", "--page=details")
    assert pages["csv"][-2:] == ("--page=raw", "--csv")


@pytest.mark.parametrize(
    ("found", "device", "ranks", "is_run"),
    [
        (Ncu("/usr/bin/ncu"), "cuda", 1, True),
        (Ncu("/usr/bin/ncu"), "cuda", 2, False),
        (Ncu("/usr/bin/ncu"), "cpu", 1, False),
        (Ncu("/usr/bin/ncu"), "hip", 1, False),
        (Ncu(""), "cuda", 1, False),
        (Ncu("/tmp/ncu", ("cpu", "cuda")), "cpu", 1, True),
    ],
)
def test_ncu_is_run_for_one_process_on_a_cuda_gpu(
    found: Ncu, device: str, ranks: int, is_run: bool
) -> None:
    assert found.is_for(device, ranks) is is_run


def test_a_box_is_shown_where_ncu_lies_behind_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "ncu").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ncu").symlink_to(tmp_path / "real" / "ncu")
    folders = Ncu(str(tmp_path / "bin" / "ncu")).folders
    assert folders == (str(tmp_path / "bin"), str(tmp_path / "real"))
    assert Ncu().folders == ()


def test_the_program_brings_the_guest_and_nothing_else_of_the_harness() -> None:
    names = zipfile.ZipFile(io.BytesIO(plan.pack_replay())).namelist()
    assert {"__main__.py", "harness/__init__.py", "harness/worker/replay.py"} <= set(names)
    others = {name for name in names if not name.startswith("harness/worker/")}
    assert others == {"__main__.py", "harness/__init__.py"}
