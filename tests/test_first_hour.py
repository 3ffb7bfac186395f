"""The first hour of a GPU machine, rehearsed on the imitation of CUDA's driver."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from bench.gpu import first_hour, grading, turnaround, validate
from bench.gpu.cheats import may_run_beside
from bench.gpu.first_hour import StepResult, is_wanted, missing_names
from bench.gpu.grading import Findings, grade
from bench.gpu.runs import compare_processes
from bench.gpu.table import (
    NO,
    NOTHING,
    POSTPONED,
    UNSHOWN,
    YES,
    Row,
    read,
    skipped,
    write,
    write_document,
)
from bench.noop_platform import SHARED

from tests.cheats.corpus import named
from tests.devices.test_cuda_absent import needs_no_gpu
from tests.support.platform import Running
from tests.support.waits import until

ROOT = Path(first_hour.ROOT)
SCRIPT = ROOT / "bench" / "gpu" / "first_hour.sh"
RESULTS = ROOT / "bench" / "gpu" / "results"
CALL_S_MAX = 400.0
CLOCK_ROWS = "clocks-rows.json"
CHEATS = ("gpu_honest", "gpu_peek")


def row(name: str, passed: str = YES, **data: Any) -> Row:
    return Row(name, "", "", "as measured", passed, 1.0, data)


def test_the_step_turnaround_has_a_row_for_each_experiment() -> None:
    names = tuple(experiment.name for experiment in turnaround.EXPERIMENTS)
    assert names == first_hour.TURNAROUNDS


def test_a_lazy_run_passes_if_it_is_shorter_than_an_eager_one() -> None:
    eager, lazy = turnaround.EXPERIMENTS[:2]
    rows = {eager.name: row(eager.name, NOTHING, median_s=7.1)}
    for median_s, passed in ((3.0, YES), (8.0, NO)):
        short = row(lazy.name, NOTHING, median_s=median_s)
        assert turnaround.judge(short, lazy, rows, is_imitation=False).passed == passed
        assert turnaround.judge(short, lazy, rows, is_imitation=True).passed == UNSHOWN
    assert turnaround.judge(rows[eager.name], eager, rows, is_imitation=False).passed == NOTHING


def findings(*changed: Row, level: str = "strong", tier: str = "G1") -> Findings:
    """Everything passed, but for some rows."""
    names = {*first_hour.GATE, *first_hour.CLOCKS, *first_hour.RECOVERY, *CHEATS}
    rows = {name: row(name) for name in names} | {one.name: one for one in changed}
    steps = {
        "doctor": [row("level", level=level)],
        "probe": [row("tier", tier=tier)],
        "cheats": [rows[name] for name in CHEATS],
        "gate": [one for name, one in rows.items() if name not in CHEATS],
    }
    return Findings(steps, CHEATS)


def rehearse(folder: Path, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A call of the script on an imitation."""
    return subprocess.run(
        [SCRIPT, "--imitation", "--folder", folder, *options],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=CALL_S_MAX,
        check=False,
    )


def results_in(folder: Path) -> Path:
    (file,) = folder.glob("*/*")
    return file


def document_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((results_in(folder) / "first-hour.json").read_text())
    return found


def states(document: Mapping[str, Any]) -> dict[str, str]:
    return {step["step"]: step["state"] for step in document["steps"]}


def test_a_machine_where_everything_passed_may_claim_the_best_tier() -> None:
    best = grade(findings(), is_imitation=False)
    assert (best.tier, best.level, best.denials, best.open_checks) == ("G1", "strong", (), ())
    assert best.lines == ["This machine may claim: tier G1, level strong"]


@pytest.mark.parametrize(
    ("changed", "tier", "denial"),
    [
        (findings(row("V5m", NO)), "G2", "G1 is denied: V5m has not passed (as measured)"),
        (findings(row("V6", NO)), "G1", ""),
        (findings(row("V2", NO)), "G3", "G2 is denied: V2 has not passed (as measured)"),
        (findings(row("gpu_peek", NO)), "G3", "G2 is denied: cheats: gpu_peek: as measured"),
        (findings(tier="G2"), "G2", "G1 is denied: probe opened the GPU as G2"),
        (findings(tier="G0"), "G0", "G3 is denied: probe opened the GPU as G0"),
        (findings(level="medium"), "G2", "G1 is denied: doctor found isolation medium, not strong"),
    ],
)
def test_each_check_that_fails_denies_a_tier(changed: Findings, tier: str, denial: str) -> None:
    graded = grade(changed, is_imitation=False)
    assert graded.tier == tier
    assert (denial in graded.denials) if denial else not graded.denials


def test_what_has_not_run_denies_as_well() -> None:
    full = findings()
    some = Findings({**full.by_step, "cheats": [row("gpu_honest")], "gate": []}, CHEATS)
    graded = grade(some, is_imitation=False)
    assert graded.tier == "G3"
    assert "G2 is denied: V2 has not run" in graded.denials
    assert "G1 is denied: cheats: not run: gpu_peek" in graded.denials


def test_times_are_provisional_until_the_clocks_have_passed() -> None:
    graded = grade(findings(row("E11", NO)), is_imitation=False)
    assert graded.lines == [
        "This machine may claim: tier G1, level strong, provisional",
        "- provisional until these pass: E11 has not passed (as measured)",
    ]


def test_a_short_form_that_passed_leaves_times_provisional() -> None:
    graded = grade(findings(replace(row("E12"), is_short=True)), is_imitation=False)
    assert graded.tier == "G1"
    assert graded.open_checks == ("E12 has passed in its short form alone",)


def test_a_short_form_of_the_gate_would_deny_a_tier() -> None:
    graded = grade(findings(replace(row("V5m"), is_short=True)), is_imitation=False)
    assert graded.tier == "G2"
    assert graded.denials == ("G1 is denied: V5m has passed in its short form alone",)
    assert not any(one.short_s for one in validate.EXPERIMENTS if one.name.startswith("V"))


def test_the_table_says_which_rows_are_short() -> None:
    rows = [replace(row(name), is_short=name != "E5") for name in ("E5", "E11")]
    whole, short = grading.table_lines({"clocks": rows}, "GPU", "today", "abc")[2:]
    assert "| yes | GPU |" in whole
    assert "| yes, short form | GPU |" in short


def test_full_repeats_what_has_a_short_row_alone(tmp_path: Path) -> None:
    first, full = (first_hour.Call(tmp_path, False, is_short) for is_short in (True, False))
    for step in first_hour.STEPS:
        rows = [replace(row(name), is_short=name == "E11") for name in step.names()]
        if step.module == "bench.gpu.validate":
            write(rows, {}, first.rows_file(step.name))
        write_document(asdict(StepResult(step.name, first_hour.DONE)), first.state_file(step.name))
    assert not any(is_wanted(first, step) for step in first_hour.STEPS)
    (clocks,) = [step for step in first_hour.STEPS if is_wanted(full, step)]
    assert clocks.name == "clocks"
    assert missing_names(first, clocks) == []
    assert missing_names(full, clocks) == ["E11"]
    assert "--short" in clocks.command(first, 100)
    assert "--short" not in clocks.command(full, 100)


def test_a_short_row_stays_until_the_full_one_has_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.json"
    short = replace(row("E11"), is_short=True)
    write([short], {}, path)
    options = ["--resume", "--imitation", "--only", "E11", "E12", "--seconds", "30"]
    monkeypatch.setattr(sys, "argv", ["validate", *options, "--out", str(path)])
    validate.main()
    kept, waits = read(path)
    assert kept == short
    assert waits.is_postponed


def test_true_differences_are_counted_between_processes() -> None:
    cold = {"a": 100.0, "twin": 100.1, "half": 100.5, "one": 101.0}
    hot = {"a": 100.6, "twin": 100.7, "half": 101.2, "one": 101.7}
    assert compare_processes([cold, cold]) == {"twin": 2, "half": 2, "one": 2}
    # 0.6 % between the processes hide half a percent, but not a whole one.
    assert compare_processes([cold, hot]) == {"twin": 0, "half": 1, "one": 2}


def test_a_cheat_runs_beside_others_if_it_can_end_in_one_way_only() -> None:
    beside = {name for name in first_hour.cheat_names() if may_run_beside(named(name))}
    plain = {"gpu_graph_replay", "gpu_noop", "gpu_uninitialised", "gpu_wrong", "gpu_tf32"}
    rehearsed = {"gpu_cached_by_address", "gpu_fifteen_at_once", "gpu_half_precision"}
    rehearsed |= {"gpu_marks_overwritten", "gpu_pages_unprotected"}
    assert beside == plain | rehearsed


def test_a_gpu_that_does_not_open_has_no_tier() -> None:
    closed = findings(tier="")
    assert grade(closed, is_imitation=False).tier == ""
    assert "the GPU was not opened" in grade(closed, is_imitation=False).denials[0]


def test_what_an_h100_showed_is_graded() -> None:
    """Tier G1, but for `gpu_fault`, which passed in a later call with five other cheats."""
    document = json.loads((RESULTS / "h100-first-hour.json").read_text())
    steps = {name: [Row(**row) for row in rows] for name, rows in document["rows"].items()}
    later_rows = grading.rows_of_cheats(json.loads((RESULTS / "h100-cheats.json").read_text()))
    names = {row.name for row in later_rows}
    graded = grade(Findings(steps, sorted(names)), is_imitation=False)
    assert graded.tier == "G3"
    assert any(denial.startswith("G1 is denied: cheats: gpu_fault") for denial in graded.denials)

    steps["cheats"] = [row for row in steps["cheats"] if row.name not in names] + later_rows
    ran = [row.name for row in steps["cheats"]]
    graded = grade(Findings(steps, ran), is_imitation=False)
    assert (graded.tier, graded.level, graded.denials) == ("G1", "strong", ())
    open_experiments = [check.partition(" ")[0] for check in graded.open_checks]
    assert open_experiments == ["E3", "E3m", "E8", "E11", "E12"]


def test_the_hour_has_every_experiment_and_fits_its_time() -> None:
    planned = {*first_hour.GATE, *first_hour.CLOCKS, *first_hour.RECOVERY}
    known = {one.name for one in validate.EXPERIMENTS if not one.name.startswith("R")}
    assert planned == known
    assert sum(step.share_s for step in first_hour.STEPS) <= first_hour.TOTAL_S
    assert first_hour.TOTAL_S + 2 * first_hour.STOP_S_MAX < 600


def test_an_experiment_without_time_waits_for_another_call() -> None:
    experiment = validate.EXPERIMENTS[0]
    late = skipped(experiment, "3 s are left", POSTPONED)
    assert late.is_postponed
    assert late.passed == NOTHING
    assert not skipped(experiment, "only root can").is_postponed


@needs_no_gpu
def test_without_a_gpu_the_script_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.gpu.first_hour", "--folder", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=CALL_S_MAX, check=False
    )
    assert done.returncode == 2
    assert "no NVIDIA GPU can be used here: CUDA's driver cannot be used" in done.stderr
    assert "--imitation" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.box
@pytest.mark.timeout(2 * CALL_S_MAX)
def test_a_call_that_broke_off_is_resumed(platform: Running, tmp_path: Path) -> None:
    """The first call is killed, and loses the current row alone.

    In the second one a step fails and one exceeds its limit; the third one repeats those. So no
    step runs to its end twice.
    """
    early_rows = kill_clocks(tmp_path, signal.SIGKILL, -signal.SIGKILL)
    files = results_in(tmp_path)
    blocked = files / "gate-rows.json"
    blocked.mkdir()
    # Nobody reads it, so whoever writes his rows there waits for ever.
    endless = files / "recovery-rows.part"
    os.mkfifo(endless)

    # One platform is like another to the step that measures one.
    first = rehearse(tmp_path, "--limit", "recovery=0.5", **{SHARED: str(platform.folder)})
    document = document_in(tmp_path)
    assert first.returncode == 1, first.stdout + first.stderr
    others = dict.fromkeys((step.name for step in first_hour.STEPS), first_hour.DONE)
    assert states(document) == others | {"gate": "failed", "recovery": "stopped"}
    assert "recovery: stopped: it did not end within 0.5 s" in first.stdout
    blocked.rmdir()
    endless.unlink()
    clock_rows = read(files / CLOCK_ROWS)
    assert clock_rows[: len(early_rows)] == early_rows
    assert [row.name for row in clock_rows] == list(first_hour.CLOCKS)
    kept = {path: path.stat().st_mtime_ns for path in files.glob("*-rows.json")}
    assert len(kept) == len(first_hour.STEPS) - 2

    second = rehearse(tmp_path)
    document = document_in(tmp_path)
    assert second.returncode == 0, second.stdout + second.stderr
    assert states(document) == others
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert "== cheats: has its result" in second.stdout
    assert document["grade"]["tier"] == ""
    rows = document["rows"]
    shown = {one["passed"] for step, of in rows.items() if step != "doctor" for one in of}
    assert shown == {UNSHOWN}
    assert len(rows["gate"]) == len(first_hour.GATE)
    assert all(one["is_short"] for one in rows["catalogue"])
    assert "which --full repeats: identity of catalogue, vectoradd of catalogue" in second.stdout
    assert "no tier\n- this is an imitation of a GPU" in second.stdout
    cheats = json.loads((files / "cheats-rows.json").read_text())
    assert {one["name"] for one in cheats} == {*first_hour.REHEARSED_CHEATS}
    assert not [one["name"] for one in cheats if one["faults"] or one["is_recorded"]]
    table = (files / "table.md").read_text().splitlines()
    assert table[0] == "| benchmark | figure | measured | goal | met | load | date | commit |"
    assert len(table) == 2 + sum(map(len, rows.values()))


@pytest.mark.long
@pytest.mark.timeout(CALL_S_MAX)
def test_an_interrupted_call_loses_the_current_row_alone(tmp_path: Path) -> None:
    assert kill_clocks(tmp_path, signal.SIGTERM, 130)


def kill_clocks(folder: Path, number: signal.Signals, code: int) -> list[Row]:
    """Send a signal to a call that has one row of its clocks and makes another; the rows it left.

    The call has a results folder and E1 from an earlier one.
    """
    command = [str(SCRIPT), "--imitation", "--folder", str(folder), "--only"]
    subprocess.run([*command, "doctor"], stdout=subprocess.DEVNULL, timeout=CALL_S_MAX, check=False)
    files = results_in(folder)
    file = files / CLOCK_ROWS
    early = Row("E1", "step of the timer", "32 ns", "an earlier call's", UNSHOWN, 0.0, {})
    write([early], {}, file)
    # Nobody reads it, so the call waits where it writes the second row.
    fifo = file.with_suffix(".part")
    os.mkfifo(fifo)
    process = subprocess.Popen([*command, "clocks"], stdout=subprocess.DEVNULL)
    try:
        log = files / "clocks.log"
        until(lambda: log.exists() and "E2 " in log.read_text(), CALL_S_MAX)
        process.send_signal(number)
        assert process.wait(CALL_S_MAX) == code
    finally:
        process.kill()
    until(lambda: not _is_written(file), within_s=first_hour.STOP_S_MAX)
    fifo.unlink()
    assert read(file) == [early]
    return [early]


def _is_written(file: Path) -> bool:
    """Whether a process still has this file as an argument."""
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    return any(str(file).encode() in command for command in commands)


@pytest.mark.long
@pytest.mark.timeout(CALL_S_MAX)
def test_a_bare_machine_does_what_its_python_allows(tmp_path: Path) -> None:
    """No repository and network; the machine's Python is a venv that has cupy and no more."""
    machine, bare = tmp_path / "machine", tmp_path / "warpboard"
    base = f"{sys.base_prefix}/bin/python3"
    subprocess.run([base, "-m", "venv", "--without-pip", machine], check=True, timeout=CALL_S_MAX)
    (packages,) = machine.glob("lib/python*/site-packages")
    (packages / "cupy.py").touch()
    bare.mkdir()
    parts = ("bench", "harness", "shared", "cli", "services", "problems", "tests")
    for name in (*parts, "constraints.txt"):
        (bare / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [bare / "bench" / "gpu" / "first_hour.sh", "--imitation"],
        env={
            "PATH": os.defpath,
            "PYTHON": str(machine / "bin" / "python"),
            "PIP_NO_INDEX": "1",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=CALL_S_MAX,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "no packages could be installed" in done.stderr
    document = document_in(bare / "build" / "first-hour" / "results")
    assert document["commit"].startswith("none")
    assert states(document) == {
        step.name: first_hour.LEFT_OUT if step.needs else first_hour.DONE
        for step in first_hour.STEPS
    }
    assert "gate: left out: this Python lacks torch" in done.stdout
    rows = {one["name"]: one["measured"] for one in document["rows"]["doctor"]}
    assert list(rows) == ["level", "toolchains", "software"]
    assert "cupy" in rows["software"].partition(";")[0].split()
