"""A problem may be one file, in Python or C++, in any of several forms that its source shows."""

import json
from pathlib import Path

import pytest

from shared.errors import Refused
from shared.presentation.units import one_line
from shared.problem_folders import read_problem_files
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.kernelbench import AS_ANSWER, reduce_sizes
from shared.problems.templates import find_starter_template, render_template, template_sources
from tests.support.examples import CPP

RANDOM = CPP.replace("input(int seed)", "input()").replace("engine(seed)", "engine(std::rand())")
CPP_NEWER = (
    CPP[: CPP.index("bool check")]
    + """\
void check_implementation(TestReporter &reporter, const input_t data, output_t output) {
    if (output == ref_kernel(data)) reporter.pass();
    else reporter.fail() << "other values";
}
#endif
"""
)
REST = "def ref_kernel(data): ...\ndef check_implementation(got, want): ...\n"
OLDER = "#!POPCORN gpus CPU\ndef generate_input(): ...\n" + REST
KERNELBENCH = """\
import torch.nn as nn
class Model(nn.Module): ...
def get_inputs(): ...
def get_init_inputs(): ...
"""


def compiled_cpp(text: str, name: str = "reference.cu") -> ProblemVersion:
    return compile_problem("one", {name: text.encode()})


def compiled(text: str, **others: bytes) -> ProblemVersion:
    files = {"reference_code.py": text.encode(), "notes.py": b"x = 1\n"}
    return compile_problem("one", files | {"warpboard.yml": others.get("extras", b"")})


def test_a_model_is_kernelbenchs_form() -> None:
    version = compiled(KERNELBENCH, extras=b"gpus: [H100]\nlanguages: [python, cpp]\n")
    manifest = json.loads(version.manifest)
    assert manifest["form"] == "kernelbench"
    assert version.languages == ("python",)
    assert "ModelNew" in manifest["description"]
    assert version.gpus == ("H100",)
    # All generators are seeded before each call.
    assert version.warnings == ()


def test_a_model_has_its_baselines_and_time_to_compile_them() -> None:
    version = compiled(KERNELBENCH, extras=b"gpus: [H100]\n")
    eager, compiled_model = version.baselines
    assert (eager.name, eager.data) == ("eager", KERNELBENCH.encode() + AS_ANSWER)
    assert (compiled_model.name, b"torch.compile(" in compiled_model.data) == ("compile", True)
    assert version.budgets_s["build"] == 300
    text = "gpus: [H100]\nbudget_s: {build: 9}\nbaselines: [{name: eager, file: own.py}]\n"
    files = {"model.py": KERNELBENCH.encode(), "own.py": b"x = 1\n"}
    own = compile_problem("one", files | {"warpboard.yml": text.encode()})
    assert [baseline.data for baseline in own.baselines] == [b"x = 1\n", compiled_model.data]
    assert own.budgets_s["build"] == 9


@pytest.mark.parametrize(
    ("sizes", "inputs", "reduced"),
    [
        # The smallest power of two with which all inputs together are small enough.
        ("N = 2 * 4096", "torch.rand(N, N)", "N = 512"),
        ("N = 2 * 4096", "[torch.rand(N, N), torch.rand(N)]", "N = 256"),
        # One factor for all, rounded up, and nothing below 16.
        ("B, C = 100, 4095\nS = (C, C)", "torch.randn(B, *S)", "B, C = 16, 128\nS = (C, C)"),
        ("h = w = 4096; k = 3", "torch.rand(1, 8, h, w)", "h = w = 128; k = 3"),
        ("S = (40000, 99)", "torch.randint(0, 9, S)", "S = (10000, 25)"),
        # What is small stays, and what the text does not tell.
        ("N = 512", "torch.rand(N, N)", "N = 512"),
        ("N = 9999", "made()", "N = 9999"),
        ("é = '9999'; N = 9999", "torch.rand(N, N)", "é = '9999'; N = 313"),
        ("N = 99999", "torch.rand(99999, 99999, N)", "N = 16"),
    ],
)
def test_a_model_has_sizes_for_the_processor(sizes: str, inputs: str, reduced: str) -> None:
    rest = f"\ndef get_inputs():\n    return {inputs}\n"
    assert reduce_sizes(f"{sizes}{rest}".encode()).decode() == f"{reduced}{rest}"


def test_a_version_has_the_smaller_model_beside_its_own() -> None:
    text = "#!POPCORN gpus CPU\nN = 8192\n" + KERNELBENCH.replace(
        "inputs(): ...", "inputs(): return torch.rand(N, N)", 1
    )
    version = compiled(text)
    assert version.files["reference.py"] == text.encode()
    assert version.files["reference_cpu.py"] == text.replace("8192", "512").encode()
    assert "the smaller sizes of `reference_cpu.py`" in json.loads(version.manifest)["description"]
    # The files that participants get are the problem again.
    again = compile_problem("one", {"warpboard.yml": b"", **version.files})
    assert again.digest == version.digest


@pytest.mark.parametrize("text", [CPP, RANDOM, CPP_NEWER])
@pytest.mark.parametrize("name", ["reference.cu", "reference.cuh", "task.cpp"])
def test_a_file_in_cpp_is_a_problem(text: str, name: str) -> None:
    version = compiled_cpp(text, name)
    manifest = json.loads(version.manifest)
    assert (manifest["lang"], manifest["calls"]) == ("cu", 5)
    assert manifest["tests"] == manifest["benchmarks"]
    assert [case["args"] for case in manifest["tests"]] == [{"seed": 42}]
    assert version.languages == ("cpp", "cuda")
    assert version.files["reference_code.cuh"] == text.encode()
    assert set(version.files) == {"reference_code.cuh", "reference.cuh", "task.h"}
    wrapper = version.files["reference.cuh"]
    assert (b"check_implementation(output, ref_kernel(data))" in wrapper) == (text != CPP_NEWER)
    assert (b"std::srand(seed)" in wrapper) == (text == RANDOM)
    assert version.warnings == ()


def test_a_template_is_written_from_a_file_in_cpp() -> None:
    version = compiled_cpp(CPP)
    manifest = json.loads(version.manifest)
    template = find_starter_template(manifest, "cuda")
    files = {name: version.files[name] for name in template_sources(manifest, template)}
    text = render_template(manifest, template, files)
    assert '#include "task.h"\n' in text
    assert "// using input_t = std::vector<float>;\n// typedef input_t output_t;\n\n" in text
    assert "// Gives what ref_kernel(data) of reference_code.cuh gives.\n" in text
    assert "output_t custom_kernel(input_t data) {" in text


def test_gpu_types_may_be_given_beside_a_file() -> None:
    text = CPP.replace("//!POPCORN gpus CPU\n", "")
    with pytest.raises(Refused, match=r"reference\.cu: no gpus here.*begin it with //!POP"):
        compiled_cpp(text)
    files = {"reference.cu": text.encode()}
    assert compile_problem("one", files, ["CPU", "H100"]).gpus == ("CPU", "H100")
    # Those of the files come first.
    assert compile_problem("one", {"a.cu": CPP.encode()}, ["H100"]).gpus == ("CPU",)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (CPP, "int x;\n", "does not define input_t, output_t, generate_input, ref_kernel, check_i"),
        ("output_t ref_kernel", "output_t kernel", "reference.cu does not define ref_kernel: a "),
        ("ref_kernel(input_t data) {", "ref_kernel(input_t data); void other() {", "define ref_k"),
        ("input_t output_t;", "input_t other_t;", "does not define output_t"),
        ("using input_t", "// using input_t", "does not define input_t"),
        ("(int seed)", "(int size, int seed)", "has generate_input(int size, int seed): in one "),
        ("(input_t data)", "(input_t data, int n)", "has ref_kernel(input_t data, int n): it "),
        ("(output_t output, output_t expected,", "(output_t output,", "has check_implementation"),
        ("output_t output, output_t expected,", "int a, int b,", "write check_implementation(outp"),
        ("#include <random>", '#include "task.h"', "includes task.h, which a problem in one file"),
        ("#include <random>", ' # include "more.h"', 'includes "more.h", which is another file'),
        ("gpus CPU", "gpu", "reference.cu: line 1: leaderboard takes one"),
    ],
)
def test_what_a_file_in_cpp_lacks_is_said(old: str, new: str, words: str) -> None:
    assert old in CPP
    with pytest.raises(Refused) as caught:
        compiled_cpp(CPP.replace(old, new))
    assert caught.value.code == "bad_problem"
    assert words in caught.value.reason


def test_a_file_of_nothing_but_names_is_read_in_a_moment() -> None:
    # By a search that reads on from each of them it would take minutes.
    for name in ("generate_input(", "typedef input_t "):
        with pytest.raises(Refused, match="does not define"):
            compiled_cpp(name * (200_000 // len(name)))
    with pytest.raises(Refused, match="code has at most"):
        compiled_cpp("x" * 300_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (KERNELBENCH, "reference_code.py: no gpus"),
        (
            OLDER.replace("input()", "input(size)"),
            "needs size: give defaults in the file, such as size=1024",
        ),
        (OLDER.replace("gpus CPU", "gpu"), "reference_code.py: line 1: leaderboard takes one"),
        (OLDER.replace("(): ...", "(:"), "reference_code.py, line 2: not Python"),
        (KERNELBENCH + "# A.from_pretrained\n", "it asks for weights by from_pretrained"),
        ("x = 1\n", "neither exists: a problem needs one of them"),
    ],
)
def test_what_a_file_lacks_is_said(text: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        compiled(text)
    assert caught.value.code == "bad_problem"


def test_what_the_only_file_lacks_is_said() -> None:
    text = OLDER.replace("def ref_kernel", "def kernel")
    with pytest.raises(Refused, match=r"one\.py does not define ref_kernel: a problem in one file"):
        compile_problem("one", {"one.py": text.encode()})


@pytest.mark.parametrize("other", ["b.py", "b.cuh"])
def test_two_problems_are_not_one(other: str) -> None:
    text = OLDER if other == "b.py" else CPP
    with pytest.raises(Refused, match=rf"a\.py, {other}: each is a problem by itself"):
        compile_problem("one", {"a.py": OLDER.encode(), other: text.encode()})


def test_a_file_is_read_by_its_own_name(tmp_path: Path) -> None:
    file = tmp_path / "9_Add.py"
    file.write_text(OLDER)
    assert read_problem_files(file) == {"9_Add.py": OLDER.encode()}


ROBUST = b"""\
import torch


def forward_fn(x, weight):
    return x * weight


class Model(torch.nn.Module):
    def __init__(self, features, init_method="standard"):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(features))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight)


def get_inputs(batch=4, features=8):
    return [torch.randn(batch, features)]
"""
LEETGPU = b"""\
import torch
from core.challenge_base import ChallengeBase


class Challenge(ChallengeBase):
    name = "Copy"

    def reference_impl(self, x, y, N):
        y.copy_(x)
"""


@pytest.mark.parametrize(
    ("name", "source", "others", "words"),
    [
        (
            "func_forward.py",
            ROBUST,
            {"func_backward.py": ROBUST, "config_forward.json": b"{}"},
            "a task of robust-kbench: add get_init_inputs",
        ),
        (
            "challenge.py",
            LEETGPU,
            {"challenge.html": b"<p>", "starter/starter.cu": b"", "starter/starter.py": b""},
            "a challenge of LeetGPU: write a reference.py with generate_input",
        ),
    ],
)
def test_a_task_of_another_set_says_in_a_sentence_what_it_lacks(
    name: str, source: bytes, others: dict[str, bytes], words: str
) -> None:
    # The file alone, and the folder that it is in.
    for files in ({name: source}, {name: source, **others}):
        with pytest.raises(Refused, match=words) as caught:
            compile_problem("p", files, ["CPU"])
        assert one_line(caught.value.reason) == caught.value.reason


def test_a_task_of_robust_kbench_loads_as_its_advice_says() -> None:
    added = b"\n\ndef get_init_inputs():\n    return [8]\n"
    version = compile_problem("p", {"func_forward.py": ROBUST + added}, ["CPU"])
    assert json.loads(version.manifest)["form"] == "kernelbench"
