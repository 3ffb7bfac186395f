"""`warpboard evaluate` in the real harness: kills, interrupts, and calls that go on."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
PROBLEM = ROOT / "problems" / "identity"
RIGHT = "def custom_kernel(data):\n    return data[1].copy_(data[0])\n"
WRONG = "def custom_kernel(data):\n    return data[1]\n"
END_S_MAX = 90.0
pytestmark = [pytest.mark.box, pytest.mark.long]


def write_sources(folder: Path, count: int) -> Path:
    """Write kernels of which every third is wrong."""
    path = folder / "sources.jsonl"
    kernels = ((f"k{number}", WRONG if number % 3 == 0 else RIGHT) for number in range(count))
    lines = [json.dumps({"id": id_, "source": f"# {id_}\n{source}"}) for id_, source in kernels]
    path.write_text("\n".join(lines) + "\n")
    return path


def start(*arguments: str | Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "warpboard", "evaluate", *map(str, arguments)]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, cwd=ROOT, **streams)


def read_results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_for_results(path: Path, count: int) -> None:
    """Wait until a file has so many lines."""
    until = time.monotonic() + END_S_MAX
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < until, f"{path} has no {count} lines"
        time.sleep(0.02)


def test_a_killed_call_goes_on_and_evaluates_nothing_twice(tmp_path: Path) -> None:
    sources, out = write_sources(tmp_path, 60), tmp_path / "results.jsonl"
    for count in (5, 20):
        process = start(PROBLEM, sources, "--out", out)
        wait_for_results(out, count)
        process.kill()
        process.communicate(timeout=END_S_MAX)
    before = read_results(out)
    assert len(before) < 60
    with out.open("ab") as file:
        file.write(b'{"id": "k59", "verd')
    process = start(PROBLEM, sources, "--out", out, "--json")
    printed, _ = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0
    results = read_results(out)
    assert results[: len(before)] == before
    assert sorted(result["id"] for result in results) == sorted(f"k{n}" for n in range(60))
    wrong = {result["id"] for result in results if result["verdict"] == "wrong_answer"}
    assert wrong == {f"k{number}" for number in range(0, 60, 3)}
    document = json.loads(printed)
    assert document["verdicts"] == {"passed": 40, "wrong_answer": 20}
    assert document["evaluated"] == 60 - len(before)


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    sources, out = write_sources(tmp_path, 400), tmp_path / "results.jsonl"
    process = start(PROBLEM, sources, "--out", out)
    wait_for_results(out, 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=END_S_MAX)
    count = len(read_results(out))
    assert process.returncode == 130
    assert f"{count} of 400 evaluated, in {out}; repeat the command to go on" in errors


def test_a_timed_kernel_has_a_speed_up_and_a_reward(tmp_path: Path) -> None:
    sources, out = write_sources(tmp_path, 2), tmp_path / "results.jsonl"
    process = start(PROBLEM, sources, "--out", out, "--mode", "benchmark")
    printed, errors = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0, errors
    assert "2 of 2 have a verdict" in printed
    by_id = {result["id"]: result for result in read_results(out)}
    right, wrong = by_id["k1"], by_id["k0"]
    low, high = right["interval"]
    assert 0 < low < right["speedup"] < high
    assert right["reward"] is None or right["reward"] >= 0
    assert (wrong["verdict"], wrong["reward"], wrong["speedup"]) == ("wrong_answer", 0.0, None)
    again = start(PROBLEM, sources, "--out", out, "--mode", "test")
    _, errors = again.communicate(timeout=END_S_MAX)
    assert again.returncode == 2
    assert "the results are of mode benchmark, not test" in errors
