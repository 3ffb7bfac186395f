"""`warpboard optimise` in the real harness: a model, kills and interrupts, a duel, a submission.

The kernels sleep, so that they take the same time on a busy machine. No test relies on a time that
counts: on a busy machine all may be noisy.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from shared.problem_versions import load_problem
from tests.cli.model_server import Answer, complete, run_model_server
from tests.cli.test_evaluate import read_results, wait_for_results
from tests.support.people import Person
from tests.support.platform import Running
from tests.support.waits import until
from warpboard.optimiser_files import TraceFile, TraceLine

ROOT = Path(__file__).parent.parent.parent
KEY = "sk-hidden-4711"
START = """#!WARPBOARD tune PAUSE_S 0.001 0.004 0.02
from time import sleep

PAUSE_S = 0.02
COPIES = 2


def copy(source, output):
    sleep(PAUSE_S)
    for _ in range(COPIES):
        output.copy_(source)
    return output


def custom_kernel(data):
    return copy(*data)
"""
OTHER = """from time import sleep as rest

LESS_S = 0.002


def copy(source, output):
    rest(LESS_S)
    return output.copy_(source)


def custom_kernel(data):
    return copy(*data)
"""
MODULE = "class Model:\n    def forward(self, source):\n        return source\n"
WRONG = "def custom_kernel(data):\n    return data[1]\n"
# It would fail if it saw the key.
RIGHT = """import os

assert "WARPBOARD_MODEL_KEY" not in os.environ


def custom_kernel(data):
    return data[1].copy_(data[0])
"""
# On a busy machine each start of the harness takes a quarter of a minute.
END_S_MAX = 200.0
pytestmark = [pytest.mark.box, pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """The identity of few numbers."""
    folder = tmp_path / "identity"
    folder.mkdir()
    for name in ("task.py", "reference.py", "statement.md"):
        (folder / name).write_bytes((ROOT / "problems" / "identity" / name).read_bytes())
    (folder / "task.yml").write_text(
        'files: [{name: submission.py, source: "@SUBMISSION@"}, {name: task.py, source: task.py},\n'
        "  {name: reference.py, source: reference.py}]\n"
        "lang: py\nconfig: {main: eval.py}\ndescription: Copy a vector.\n"
        "tests: [{size: 127, seed: 1010}]\nbenchmarks: [{size: 256, seed: 6252}]\n"
        "test_timeout: 60\nbenchmark_timeout: 60\nranked_timeout: 60\nranking_by: last\n"
        "gpus: [CPU]\n"
    )
    return folder


def write_start(folder: Path, text: str = START) -> Path:
    path = folder / "start.py"
    path.write_text(text)
    return path


def begin(*arguments: str | Path, **environ: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "warpboard", "optimise", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | environ,
    )


def stages(lines: list[dict[str, Any]], **fields: object) -> Counter[str]:
    """Count the stages of lines with these fields."""
    chosen = [line for line in lines if fields.items() <= line.items()]
    return Counter(line["stage"] for line in chosen)


def test_a_model_translates_a_module_and_its_key_stays_secret(
    problem: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    answers = (
        Answer(429, {"error": f"{KEY} is busy"}, {"retry-after": "1"}),
        complete(f"A buffer is enough.\n\n```python\n{WRONG}```\n", 100),
        Answer(500, {"error": KEY}),
        complete(f"I cannot do that with {KEY}.", 100),
        complete(f"Copy.\n```python\n# {KEY}\n{RIGHT}```\nDone.", 100),
    )
    with run_model_server(*answers) as server:
        process = begin(
            *(problem, write_start(tmp_path, MODULE), "--out", out, "--by", "model"),
            *("--endpoint", server.url, "--model", "small", "--population", "1"),
            *("--total-tokens", "300", "--tokens", "77", "--json"),
            WARPBOARD_MODEL_KEY=KEY,
        )
        printed, errors = process.communicate(timeout=END_S_MAX)
    # Behind the fifth answer the tokens are used up.
    assert len(server.asked) == 5, errors
    for asked in server.asked:
        assert asked.headers.pop("authorization") == f"Bearer {KEY}"
        assert KEY not in f"{asked.headers} {asked.body}"
        assert asked.body["max_tokens"] == 77
    first, *_, last = (asked.body["messages"][1]["content"] for asked in server.asked)
    assert "Translate it" in first
    assert MODULE in first
    assert "Kernel 1: wrong_answer: " in last
    text = (out / "trace.jsonl").read_text()
    assert KEY not in f"{text} {printed} {errors}"
    lines = read_results(out / "trace.jsonl")
    tests = {line["candidate"]: line for line in lines if line["stage"] == "test"}
    assert [tests[number]["verdict"] for number in (1, 2)] == ["wrong_answer", "compile_error"]
    assert (tests[3]["verdict"], tests[3]["tokens"]) == ("passed", 100)
    assert tests[3]["source"] == f"# [key]\n{RIGHT}"
    assert tests[3]["completion"].startswith("Copy.\n```python\n# [key]\n")
    assert [message["role"] for message in tests[3]["prompt"]] == ["system", "user"]
    assert tests[3]["prompt"][1]["content"] == last
    assert stages(lines, candidate=3)["screen"] >= 1
    document = json.loads(printed)
    assert process.returncode == 0, errors
    assert (document["best"], document["speedup_over"]) == (3, "yardstick")
    assert stages(lines)["confirm"] == 1
    assert (out / "best.py").read_text() == tests[3]["source"]


def test_a_killed_and_an_interrupted_run_go_on_to_the_end(problem: Path, tmp_path: Path) -> None:
    start, out = write_start(tmp_path), tmp_path / "out"
    trace, kernels = out / "trace.jsonl", tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "other.py").write_text(OTHER)
    (kernels / "notes.txt").write_text("no kernel")
    words = (
        *(problem, start, "--out", out, "--by", "evolution", "--kernels", kernels),
        *("--population", "3", "--evaluations", "17"),
    )

    process = begin(*words)
    wait_for_results(trace, 2)
    process.kill()
    process.communicate(timeout=END_S_MAX)
    killed = read_results(trace)
    with trace.open("ab") as file:
        file.write(b'{"candidate": 9, "ro')

    process = begin(*words)
    wait_for_results(trace, len(killed) + 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=END_S_MAX)
    interrupted = read_results(trace)
    assert process.returncode == 130
    assert interrupted[: len(killed)] == killed
    count = len(interrupted)
    assert f"{count} evaluations so far, in {out}; repeat the command to go on" in errors
    assert errors.splitlines()[-1] == "warpboard: interrupted"

    process = begin(*words, "--json")
    printed, errors = process.communicate(timeout=END_S_MAX)
    assert process.returncode in (0, 1), errors
    lines = read_results(trace)
    assert lines[:count] == interrupted
    assert len(lines) <= 17
    assert json.loads(printed)["evaluations"] == len(lines)
    assert {line["origin"] for line in lines} == {"start", "retrieved", "evolution"}, errors
    # Each is checked once, and timed at most twice in each stage.
    for number in {line["candidate"] for line in lines}:
        counts = stages(lines, candidate=number)
        assert (counts["test"], max(counts.values()) <= 2) == (1, True)
    first_round = [line for line in lines if line["round"] == 1]
    grades = {
        line["candidate"]: line["grade"]
        for line in first_round
        if line["stage"] == "screen" and line["speedup"]
    }
    # Where no time counts, the noisy ones do.
    timed = [number for number, grade in grades.items() if grade != "noisy"] or list(grades)
    precise = {line["candidate"] for line in first_round if line["stage"] == "benchmark"}
    assert len(precise) == ceil(len(timed) / 3)
    for line in lines:
        if line["origin"] == "evolution":
            assert set(line["parents"]) <= set(range(line["candidate"]))

    other = write_start(tmp_path, f"# another\n{START}")
    process = begin(problem, other, "--out", out)
    _, errors = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 2
    assert "began with another START, start.py: choose another folder" in errors
    assert read_results(trace) == lines


def test_a_run_ends_with_a_duel_and_a_submission_of_a_parent(
    platform: Running, problem: Path, tmp_path: Path
) -> None:
    out, start = tmp_path / "out", write_start(tmp_path)
    with Person(platform.url, "breeder") as breeder:
        parent = breeder.submit(OTHER, "ranked")
        child = START.replace("PAUSE_S = 0.02", "PAUSE_S = 0.001")
        write_trace(out, problem, parent, child)
        words = (
            *(problem, start, "--out", out, "--by", "evolution", "--evaluations", "6"),
            *("--submit", "--url", platform.url, "--as", "breeder", "--gpu", "CPU", "--json"),
        )
        process = begin(*words)
        printed, errors = process.communicate(timeout=END_S_MAX)
        assert process.returncode == 0, errors
        document = json.loads(printed)
        assert document["is_confirmed"]
        assert document["speedup_over"] == "start"
        assert 1 < document["interval"][0] < document["speedup"]
        number = document["submission"]["number"]
        seen = breeder.end(number)
        assert (seen["verdict"], seen["mode"]) == ("passed", "ranked")
        lineage = breeder.http.get(f"/v1/submissions/{number}/lineage").json()
        (member,) = [item for item in lineage["items"] if item["number"] == number]
        assert (member["parents"][0]["number"], member["parents"][0]["kind"]) == (
            parent,
            "declared",
        )

        def is_archived() -> bool:
            query = {"problem": "identity", "source": child, "limit": 100}
            found = breeder.http.post("/v1/archive/search", json=query)
            return number in [item["number"] for item in found.json()["items"]]

        until(is_archived, within_s=END_S_MAX)
        # It is over: the same command submits nothing twice.
        again = begin(*words)
        printed, errors = again.communicate(timeout=END_S_MAX)
        assert json.loads(printed)["submission"]["number"] == number, errors
    assert stages(read_results(out / "trace.jsonl"))["confirm"] == 1
    assert (out / "best.py").read_text() == child


def write_trace(out: Path, problem: Path, parent: int, child: str) -> None:
    """Write the trace of a run on a quiet machine, which had five evaluations."""
    digest = load_problem(problem, None, ("CPU",)).digest
    known: dict[str, Any] = {"problem": "identity", "problem_digest": digest, "verdict": "passed"}
    kernels: list[dict[str, Any]] = [
        {"candidate": 0, "round": 0, "origin": "start", "name": "start.py", "source": START},
        {"candidate": 1, "round": 0, "origin": "retrieved", "name": "1.py", "source": OTHER}
        | {"submission": parent},
        {"candidate": 2, "round": 1, "origin": "evolution", "name": "start.py", "source": child}
        | {"parents": [0, 1]},
    ]
    out.mkdir()
    with TraceFile(out) as trace:
        for kernel in kernels:
            trace.append(TraceLine(**(known | kernel), stage="test"))
        for kernel, speedup in ((kernels[0], 0.01), (kernels[2], 0.1)):
            interval = (0.9 * speedup, 1.1 * speedup)
            time = {"speedup": speedup, "interval": interval, "grade": "ok", "stage": "benchmark"}
            trace.append(TraceLine(**(known | kernel | time)))
