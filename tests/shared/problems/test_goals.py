"""Yardsticks, baselines and milestones of a `warpboard.yml` are valid, or refused."""

import json

import pytest

from ranker.http.problems import visible_files
from shared.errors import Refused
from shared.problems.compilation import ProblemVersion, compile_problem
from tests.shared.problems.examples import FILES, TASK, compile_example, replace_in_task

SOURCE = b"#!POPCORN gpus H100\ndef custom_kernel(data):\n    return data\n"
ONE = "baselines: [{name: eager, file: baselines/eager.py, note: 'as it is'}]\n"
TWICE = (
    "milestones: [{id: twice, title: Twice, "
    "when: {metric: vs_baseline.eager, op: '>=', value: 2, gpu: GPU}}]\n"
)


def with_goals(said: str, source: bytes = SOURCE, **files: bytes) -> ProblemVersion:
    gpus = compile_example().gpus
    added = {"warpboard.yml": said.replace("GPU", gpus[0]).encode(), "baselines/eager.py": source}
    return compile_problem("doubling", {**FILES, **added, **files})


def test_a_baseline_is_named_by_the_version_and_among_none_of_its_files() -> None:
    version = with_goals(ONE + TWICE)
    (baseline,) = version.baselines
    assert (baseline.name, baseline.note, baseline.data, baseline.gpus) == (
        "eager",
        "as it is",
        SOURCE,
        ("H100",),
    )
    (entry,) = json.loads(version.manifest)["baselines"]
    assert (entry["name"], entry["file"]) == ("eager", "baselines/eager.py")
    assert version.files.keys() == compile_example().files.keys()
    assert version.digest != with_goals(ONE + TWICE, SOURCE + b"# quicker\n").digest
    (twice,) = version.milestones
    assert (twice.metric, twice.op, twice.value) == ("vs_baseline.eager", ">=", 2.0)


def test_without_any_a_version_is_what_it_was() -> None:
    assert with_goals("baselines: []\nmilestones: []\n").digest == compile_example().digest


@pytest.mark.parametrize(
    ("was", "now", "what"),
    [
        ("baselines/eager.py", "../eager.py", "is outside the problem"),
        ("baselines/eager.py", "/etc/passwd", "is outside the problem"),
        ("baselines/eager.py", "eager.py", "is no file of the problem"),
        ("baselines/eager.py", "task.yml", "does not end in .py"),
        ("name: eager", "name: Eager", "name"),
        ("name: eager", "name: slow", "no baseline 'eager': there are slow"),
        ("}]\nmile", "}, {name: eager, file: baselines/eager.py}]\nmile", "two baselines"),
        ("vs_baseline.eager", "speed", "unknown metric 'speed'"),
        ("vs_baseline.eager", "roofline", "needs a roofline"),
        ("vs_baseline.eager, op: '>=', value: 2", "cases_passed, op: '>', value: 99", "nobody"),
        ("op: '>='", "op: '=='", "op"),
        ("value: 2", "value: -1", "value"),
        ("gpu: GPU", "gpu: Z80", "'Z80' is not one of"),
    ],
)
def test_what_cannot_be_run_or_reached_is_refused(was: str, now: str, what: str) -> None:
    goals = (ONE + TWICE).replace(was, now)
    assert goals != ONE + TWICE
    with pytest.raises(Refused, match=what) as refused:
        with_goals(goals)
    assert "warpboard.yml, line" in refused.value.reason


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (b"\xff", "not UTF-8"),
        (b" \n", "is empty"),
        (b"x\0", "NUL"),
        (b"#!POPCORN what\n", "cannot be submitted"),
        (b"#" * 1_000_001, "at most 1,000,000"),
    ],
)
def test_a_baseline_is_what_a_submission_may_be(source: bytes, what: str) -> None:
    with pytest.raises(Refused, match=what):
        with_goals(ONE, source)


def test_there_are_eight_baselines_at_most() -> None:
    many = ", ".join(f"{{name: n{at}, file: baselines/eager.py}}" for at in range(9))
    with pytest.raises(Refused, match="at most 8"):
        with_goals(f"baselines: [{many}]\n")


FAST = b"import numba\ndef custom_kernel(data):\n    return data\n"
CORRECT, WRONG = "solutions/correct/fast.py", "solutions/wrong/fast.py"


def with_yardstick(named: str, source: bytes = FAST, task: str = TASK) -> ProblemVersion:
    files = {**FILES, "task.yml": task.encode(), CORRECT: source, WRONG: source}
    return compile_problem("doubling", files | {"warpboard.yml": f"yardstick: {named}\n".encode()})


def test_a_yardstick_is_a_file_of_the_version_that_participants_do_not_see() -> None:
    version = with_yardstick(CORRECT)
    manifest = json.loads(version.manifest)
    assert manifest["yardstick"] == "solution_yardstick.py"
    assert version.files["solution_yardstick.py"] == FAST
    assert manifest["files"].keys() == version.files.keys()
    assert "solution_yardstick.py" not in visible_files(manifest)
    assert version.requires.toolchains == ["numba"]
    assert version.digest != with_yardstick(CORRECT, FAST + b"# other\n").digest
    assert "yardstick" not in json.loads(compile_example().manifest)


@pytest.mark.parametrize(
    ("named", "source", "words"),
    [
        ("solutions/correct/lost.py", FAST, "is no file of the problem: add it, or fix the path"),
        (f"./{WRONG}", FAST, "is a wrong solution: name a correct one"),
        (CORRECT, b"#!POPCORN gpus H100\n" + FAST, "runs on H100, and not on CPU: name one that"),
        (CORRECT, b" ", "is empty"),
        ("task.yml", FAST, "does not end in .py"),
        ("[fast.py]", FAST, "yardstick"),
    ],
)
def test_a_yardstick_that_cannot_be_run_is_refused(named: str, source: bytes, words: str) -> None:
    with pytest.raises(Refused, match=r"warpboard\.yml") as caught:
        with_yardstick(named, source)
    assert words in caught.value.reason


def test_a_problem_with_its_own_program_has_no_yardstick() -> None:
    task = replace_in_task("{name: task.py, source: task.py}", "{name: eval.py, source: task.py}")
    extras = f"yardstick: {CORRECT}\nharness: popcorn\n".encode()
    files = FILES | {"task.yml": task.encode(), CORRECT: FAST, "warpboard.yml": extras}
    with pytest.raises(Refused, match="own program times submissions: leave it out"):
        compile_problem("doubling", files)
