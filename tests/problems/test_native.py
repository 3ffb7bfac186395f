"""A C++ problem, from its directory to a verdict of the cpu device."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from shared.api.submissions import SubmissionRequest
from shared.errors import Refused
from shared.problem_versions import load_problem
from shared.problems.compilation import ProblemVersion, compile_problem
from tests.support.examples import CPP
from tests.support.harness import Warm
from warpboard.files import load_solutions
from warpboard.local_run import LocalHarness

TASK = """\
files:
  - {name: submission.cu, source: "@SUBMISSION@"}
  - {name: task.h, source: task.h}
  - {name: reference.cuh, source: reference.cuh}
  - {name: eval.cu, source: eval.cu}
lang: cu
config:
  sources: [eval.cu, submission.cu]
  defines: {STEP: "1"}
  compile_flags: [-O2, --use_fast_math]
description: Adds one.
tests: [{size: 5, seed: 7}]
benchmarks: [{size: 9, seed: 3}]
gpus: [H100, CPU]
"""
ADD = """\
#include "task.h"
output_t custom_kernel(input_t data) { for (int &one : data) one += 1; return data; }
"""
FILES: Mapping[str, str] = {
    "task.yml": TASK,
    "task.h": """\
#pragma once
#include <array>
#include <vector>
using input_t = std::vector<int>;
using output_t = input_t;
constexpr std::array<const char *, 2> ArgumentNames = {"size", "seed"};
""",
    "reference.cuh": """\
#include "task.h"
#include "utils.h"
static input_t generate_input(int size, int seed) { return input_t(size, seed % 1000); }
static output_t ref_kernel(input_t data) { for (int &one : data) one += STEP; return data; }
static void check_implementation(TestReporter &reporter, input_t data, output_t output) {
    if (reporter.check_equal("first", output.at(0), ref_kernel(data).at(0))) reporter.pass();
}
""",
    "eval.cu": "",
    "solutions/correct/add.cu": ADD,
    "solutions/wrong/keep.cpp": '#include "task.h"\noutput_t custom_kernel(input_t data) '
    "{ return data; }\n",
}


def compiled(changes: Mapping[str, str] = {}) -> ProblemVersion:
    files = {name: text.encode() for name, text in {**FILES, **changes}.items()}
    return compile_problem("adding", files)


def test_a_version_says_how_it_is_compiled() -> None:
    manifest = json.loads(compiled().manifest)
    assert (manifest["lang"], manifest["submission"]) == ("cu", "submission.cu")
    assert manifest["native"] == {"defines": {"STEP": "1"}, "flags": ["-O2", "--use_fast_math"]}
    assert compiled().languages == ("cpp", "cuda")


def test_sources_of_its_own_are_compiled_with_both() -> None:
    more = "  - {name: more.cpp, source: src/more.cpp}\n"
    task = TASK.replace("lang: cu", f"{more}lang: cu").replace("sources: [", "sources: [more.cpp, ")
    task = task.replace("  defines", "  include_dirs: [., src]\n  defines")
    version = compiled({"task.yml": task, "src/more.cpp": "", "warpboard.yml": "arrays: device\n"})
    native = json.loads(version.manifest)["native"]
    assert (native["sources"], native["arrays"]) == (["more.cpp"], "device")


def test_a_program_of_its_own_in_cpp_runs_it_where_that_is_asked_for() -> None:
    program = 'int main() { return !getenv("POPCORN_FD"); }'
    changes = {"eval.cu": program, "warpboard.yml": "harness: popcorn\n"}
    version = compiled(changes)
    manifest = json.loads(version.manifest)
    assert (manifest["main"], manifest["lang"]) == ("eval.cu", "cu")
    assert manifest["native"]["sources"] == ["eval.cu"]
    assert "tier G0" in version.warnings[-1]
    with pytest.raises(Refused, match="no source uses its protocol"):
        compiled(changes | {"eval.cu": ""})


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("task.yml", "-O2", "-fplugin=x", "should match pattern"),
        ("task.yml", "-O2", "-include/etc/passwd", "should match pattern"),
        ("task.yml", 'STEP: "1"', 'STEP: "1;x"', "should match pattern"),
        (
            "task.yml",
            'STEP: "1"',
            "STEP: 1",
            "line 9: 'config.defines.STEP' must be a valid string",
        ),
        ("task.yml", "sources: [", "sources: [more.cu, ", "'more.cu' is not one of the files"),
        ("task.yml", "sources: [", "sources: [task.h, ", "'task.h' is not a source"),
        ("task.yml", "defines", "include_dirs: [/opt]\n  defines", "'/opt' is not a folder"),
        ("task.yml", "defines", "include_dirs: [../x]\n  defines", "'../x' is not a folder"),
        ("task.yml", "{size: 5,", "{sise: 5,", "line 12: this case has no 'size': ArgumentNames"),
        ("task.yml", "{size: 5,", "{size: [5],", "C++ takes a bool, int, float or str"),
        ("task.yml", "name: submission.cu", "name: submission.py", "must end in .cu"),
        (
            "task.yml",
            "  - {name: task.h, source: task.h}\n",
            "",
            "file 'task.h' is missing: add it",
        ),
        ("task.yml", "lang: cu", "lang: cu\nmulti_gpu: true", "world_size"),
        ("task.h", "ArgumentNames", "Names", "task.h names no arguments"),
        ("reference.cuh", "ref_kernel", "kernel", "reference.cuh does not define ref_kernel"),
    ],
)
def test_a_mistake_is_named(name: str, old: str, new: str, words: str) -> None:
    with pytest.raises(Refused) as caught:
        compiled({name: FILES[name].replace(old, new)})
    assert words in caught.value.reason


def test_a_header_of_nothing_but_the_name_is_searched_in_a_moment() -> None:
    # By a search that reads on from each of them it would take minutes.
    with pytest.raises(Refused, match="names no arguments"):
        compiled({"task.h": "ArgumentNames " * 70_000})


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_its_solutions_get_their_verdicts_on_the_processor(warm: Warm, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    problem = load_problem(tmp_path, "adding")
    samples = load_solutions(tmp_path, "adding")
    # An older submission to a problem in one file, which includes the author's by this name.
    (tmp_path / "reference.cu").write_text(CPP)
    single = load_problem(tmp_path / "reference.cu", None)
    older = ADD.replace("task.h", "reference.cuh").replace("int &one", "float &one")
    wishes = [
        *((problem, sample.name, sample.source) for sample in (*samples.correct, *samples.wrong)),
        (single, "twice.cu", older.replace("+= 1", "*= 2").encode()),
        (single, "thrice.cpp", older.replace("+= 1", "*= 3").encode()),
        (single, "both.cpp", ('#include "task.h"\n' + older.replace("+= 1", "*= 2")).encode()),
    ]
    verdicts, harness = {}, LocalHarness(warm.harness)
    for owner, name, source in wishes:
        submission = SubmissionRequest(name, source, owner.slug, "test")
        run = warm.runner.run(harness.run(owner, submission))
        verdicts[name] = run["verdict"], run["reason"]
    assert {name: verdict for name, (verdict, _) in verdicts.items()} == {
        "add.cu": "passed",
        "keep.cpp": "wrong_answer",
        "twice.cu": "passed",
        "thrice.cpp": "wrong_answer",
        "both.cpp": "passed",
    }, verdicts
    assert "check_implementation returned false" in verdicts["thrice.cpp"][1]
