"""The settings beside a task.yml, and what they change."""

import json

import pytest

from shared.errors import Refused
from shared.problems.values import Requires
from tests.shared.problems.examples import REFERENCE, compile_example, replace_in_task

WHOLE = b"""\
title: Doubling
gpus: [CPU]
limits: {source_bytes: 2000}
budget_s: {build: 120}
authors: [Ada]
tags: [warm-up]
difficulty: easy
"""


def test_every_key_reaches_the_version() -> None:
    version = compile_example(warpboard_yml=WHOLE)
    manifest = json.loads(version.manifest)
    assert (version.title, version.gpus) == ("Doubling", ("CPU",))
    assert version.source_bytes_max == manifest["source_bytes_max"] == 2000
    assert version.budgets_s["build"] == manifest["budgets_s"]["build"] == 120
    assert (manifest["authors"], manifest["tags"]) == (["Ada"], ["warm-up"])
    assert manifest["difficulty"] == "easy"


def test_an_empty_file_adds_nothing() -> None:
    assert compile_example(warpboard_yml=b"# later\n").digest == compile_example().digest


def test_what_a_machine_must_have_reaches_the_version() -> None:
    extras = b"requires: {count: 2, memory_mib: 40000, toolchains: [triton, g++, triton]}\n"
    version = compile_example(warpboard_yml=extras)
    assert version.requires == Requires(count=2, memory_mib=40_000, toolchains=["triton", "g++"])
    assert json.loads(version.manifest)["requires"]["count"] == 2


@pytest.mark.parametrize("text", ["requires: {}", "requires: {count: 1, toolchains: []}"])
def test_asking_for_nothing_leaves_the_digest_as_it_was(text: str) -> None:
    assert compile_example(warpboard_yml=text.encode()).digest == compile_example().digest
    assert "requires" not in json.loads(compile_example().manifest)


def test_the_widest_case_says_how_many_gpus_are_needed() -> None:
    task = replace_in_task("size: 1024, seed: 3", "size: 1024, seed: 3, world_size: 4")
    task = task.replace("size: 64, seed: 7", "size: 64, seed: 7, world_size: 2")
    version = compile_example(task.replace("lang: py", "multi_gpu: true\nlang: py"))
    assert version.requires == Requires(count=4)
    assert json.loads(version.manifest)["multi_gpu"] is True


TWO_TIMED = replace_in_task(
    "  - {size: 1024, seed: 3}", "  - {size: 1024, seed: 3}\n  - {size: 2048, seed: 4}"
).replace("lang: py", "lang: py\nranking_by: geom")


@pytest.mark.feature("C9")
def test_weights_reach_the_benchmarks_of_the_version() -> None:
    version = compile_example(TWO_TIMED, warpboard_yml=b"weights: [1, 2.5]\n")
    manifest = json.loads(version.manifest)
    assert [case["weight"] for case in manifest["benchmarks"]] == [1, 2.5]


def test_equal_weights_leave_the_digest_as_it_was() -> None:
    version = compile_example(TWO_TIMED, warpboard_yml=b"weights: [3, 3]\n")
    assert version.digest == compile_example(TWO_TIMED).digest


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("weights: [1]", "line 1: 1 weights for 2 benchmarks: write one for each, in their order"),
        ("weights: [1, 0]", "'weights.1' must be greater than 0"),
        ("weights: [1, .inf]", "'weights.1'"),
        ("weights: [1, 2]\nranking_by: last", "weights with ranking_by: last"),
    ],
)
def test_a_mistake_in_the_weights_is_named(text: str, sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        compile_example(TWO_TIMED, warpboard_yml=text.encode())
    assert sentence in caught.value.reason


@pytest.mark.feature("N13")
def test_metrics_and_their_bounds_reach_the_version() -> None:
    text = b"metrics: [{metric: peak_memory_mib, max: 512}, {metric: least_speedup}]\n"
    manifest = json.loads(compile_example(warpboard_yml=text).manifest)
    assert manifest["metrics"] == [
        {"metric": "peak_memory_mib", "max": 512},
        {"metric": "least_speedup"},
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("metrics: [{metric: memory}]", "'metrics.0.metric' must be 'peak_memory_mib', "),
        ("metrics: [{metric: least_speedup, max: -1}]", "'metrics.0.max' must be greater"),
        ("metrics: [{metric: least_speedup, min: 3, max: 2}]", "min 3 is above max 2"),
        ("metrics: [{metric: least_speedup}, {metric: least_speedup}]", "is declared twice"),
    ],
)
def test_a_mistake_in_the_metrics_is_named(text: str, sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        compile_example(warpboard_yml=text.encode())
    assert sentence in caught.value.reason


HIDDEN = b"""\
hidden:
  tests: {count: 3, args: {size: {from: 1, to: 500}}}
  benchmarks: {count: 2, weight: 0.5, args: {size: {from: 1024, to: 4096, step: 64, scale: log}}}
"""


@pytest.mark.feature("N13")
def test_hidden_families_reach_the_version_with_a_seed() -> None:
    version = compile_example(TWO_TIMED, warpboard_yml=HIDDEN)
    assert json.loads(version.manifest)["hidden"] == {
        "tests": {"count": 3, "args": {"size": {"from": 1, "to": 500}, "seed": 0}},
        "benchmarks": {
            "count": 2,
            "weight": 0.5,
            "args": {"size": {"from": 1024, "to": 4096, "step": 64, "scale": "log"}, "seed": 0},
        },
    }
    assert version.requires.release == "0.3.0"
    assert version.cases_count["hidden_tests"] == 3
    assert version.cases_count["hidden_benchmarks"] == 2


def test_the_roofline_of_a_hidden_case_is_unknown() -> None:
    version = compile_example(TWO_TIMED, warpboard_yml=HIDDEN + b"roofline: {bytes: 8*size}\n")
    assert [(work.case, work.bytes) for work in version.works][2:] == [
        ("hidden benchmark 1", 0.0),
        ("hidden benchmark 2", 0.0),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hidden: {}", "hidden is empty: write tests or benchmarks"),
        ("hidden: {tests: {count: 0, args: {size: 1}}}", "'hidden.tests.count' must be greater"),
        ("hidden: {tests: {count: 1, args: {}}}", "'hidden.tests.args' has a length of 0"),
        ("hidden: {tests: {count: 1, args: {seed: 1, size: 1}}}", "has a fresh seed: remove this"),
        ("hidden: {tests: {count: 1, args: {size: {from: 1}}}}", "the key 'to' is missing"),
        ("hidden: {tests: {count: 1, args: {size: {min: 1}}}}", "unknown key 'min': there are"),
        ("hidden: {tests: {count: 1, args: {size: {from: 1, to: 2.5}}}}", "must be an integer"),
        ("hidden: {tests: {count: 1, args: {size: {from: 9, to: 2}}}}", "nothing is from 9 to 2"),
        (
            "hidden: {tests: {count: 1, args: {size: {from: 0, to: 2, scale: log}}}}",
            "at 1 or above",
        ),
        ("hidden: {tests: {count: 1, args: {size: []}}}", "0 choices: write 1 to 64"),
        ("hidden: {benchmarks: {count: 1, args: {size: 1}}}\nranking_by: last", "ranking_by: last"),
    ],
)
def test_a_mistake_in_the_hidden_families_is_named(text: str, sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        compile_example(TWO_TIMED, warpboard_yml=text.encode())
    assert sentence in caught.value.reason


def test_a_hidden_argument_that_the_generator_does_not_take_is_named() -> None:
    reference = REFERENCE.replace(b"(**case)", b"(size, seed)")
    text = b"hidden: {tests: {count: 1, args: {sise: 1}}}"
    with pytest.raises(Refused, match="a hidden case has no 'size': generate_input takes size"):
        compile_example(reference_py=reference, warpboard_yml=text)


def test_a_tolerance_is_read_and_said_to_wait() -> None:
    (warning,) = compile_example(warpboard_yml=b"tolerance: {rtol: 1e-5, atol: 0}\n").warnings
    assert "only check_implementation decides" in warning


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("titel: x", "line 1: unknown key 'titel': did you mean 'title'?"),
        ("title: ''", "line 1: 'title' has a length of 0: write at least 1"),
        ("limits: {source_bytes: 1000001}", "must be less than or equal to 1000000"),
        ("limits: {bytes: 5}", "unknown key 'bytes' in 'limits'"),
        ("budget_s: {build: 0}", "must be greater than or equal to 1"),
        ("tolerance: {rtol: -1}", "must be greater than or equal to 0"),
        ("tolerance: {rtol: .nan}", "'tolerance.rtol'"),
        ("requires: {count: 0}", "line 1: 'requires.count' must be greater than or equal to 1"),
        ("requires: {count: 17}", "must be less than or equal to 16"),
        ("requires: {memory: 5}", "unknown key 'memory' in 'requires': did you mean"),
        ("requires: {toolchains: [rm -rf]}", "'requires.toolchains.0' should match pattern"),
        ("difficulty: brutal", "must be 'easy', 'medium' or 'hard', not 'brutal'"),
        ("tags: [Warm Up]", "'tags.0' should match pattern"),
        ("gpus: [A100, A100]", "gpus A100, A100: name each once"),
        ("- title", "a list: write keys"),
    ],
)
def test_a_mistake_is_named_with_its_file(text: str, sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        compile_example(warpboard_yml=text.encode())
    assert caught.value.reason.startswith("warpboard.yml")
    assert sentence in caught.value.reason
