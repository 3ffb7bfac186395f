"""`eval.py` and `eval.cu` run beside a reference and a submission, and state what a run does."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.time import policy
from shared.errors import Refused
from shared.problem_folders import read_problem_files
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.evaluation import evaluation_files, evaluation_sources, render_evaluation
from tests.problems.test_reference_form import CHECKS, DOUBLE, HEAD, IDENTITY, REFERENCE
from tests.problems.test_templates import MODEL
from tests.support.examples import CPP
from tests.support.platform import ROOT

GENERATOR = (
    "def generate_input(size: int = 4096, seed: int = 0) -> List[torch.Tensor]:\n"
    "    return [torch.randn(size, generator=torch.Generator().manual_seed(seed))]\n"
)
SLOW = DOUBLE.replace("    return", "    for _ in range(99): xs[0].sort()\n    return")
# Its first call of each input is right.
LATER_WRONG = "calls = []\n" + DOUBLE.replace(
    "    return",
    "    calls.append(1)\n    if len(calls) > 20: return [3 * x for x in xs]\n    return",
)
RUN_S = 100


def problem(check: str = "two outputs") -> ProblemVersion:
    text = HEAD + GENERATOR + REFERENCE + CHECKS[check]
    return compile_problem("double", {"reference.py": text.encode()})


def written(folder: Path, version: ProblemVersion, submission: str) -> Path:
    """Write what a participant has: the problem's files, the evaluation and a submission."""
    manifest = json.loads(version.manifest)
    files = dict(version.files)
    for name in evaluation_files(manifest):
        sources = {name: version.files[name] for name in evaluation_sources(manifest)}
        files[name] = render_evaluation(name, manifest, sources)
    files[manifest["submission"]] = submission.encode()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def run_python(folder: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "eval.py", *words]
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def speed_up(text: str) -> float:
    (number,) = re.findall(r", ([0-9.]+) times as fast as the reference", text)
    return float(number)


def test_a_right_submission_is_checked_timed_and_scored(tmp_path: Path) -> None:
    typed = "from task import input_t, output_t\n" + DOUBLE.replace("(xs)", "(xs: input_t)")
    code, text = run_python(written(tmp_path, problem(), typed))
    assert code == 0, text
    assert "check: passed, 2 cases with 5 calls each\nsize=4096: " in text
    assert re.search(r"score: [0-9.]+ us\n$", text)


def test_a_slow_submission_is_slower_than_the_reference(tmp_path: Path) -> None:
    code, text = run_python(written(tmp_path, problem(), SLOW))
    assert code == 0, text
    assert speed_up(text) < 0.2


@pytest.mark.long
@pytest.mark.parametrize("check", CHECKS)
def test_a_wrong_submission_is_found_in_every_form(tmp_path: Path, check: str) -> None:
    folder = written(tmp_path, problem(check), IDENTITY)
    code, text = run_python(folder, "--test")
    assert (code, "check: wrong answer: " in text) == (1, True), text
    written(tmp_path, problem(check), DOUBLE)
    assert run_python(folder, "--test") == (0, "check: passed, 2 cases with 5 calls each\n")
    # Without a problem it tells the form by the names, and takes the defaults as its case.
    (tmp_path / "eval.py").write_bytes(render_evaluation("eval.py"))
    assert run_python(folder, "--test") == (0, "check: passed, 2 cases with 5 calls each\n")


def test_what_becomes_wrong_while_it_is_timed_is_found(tmp_path: Path) -> None:
    code, text = run_python(written(tmp_path, problem(), LATER_WRONG))
    assert (code, "check: passed" in text) == (1, True), text
    assert "check: wrong answer: " in text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("[x.double() for x in xs]", "the dtypes or shapes"),
        ("[x * float('nan') for x in xs]", "a NaN"),
        ("[2]", "which is not a tensor"),
    ],
)
def test_what_no_check_may_accept_is_found(tmp_path: Path, answer: str, words: str) -> None:
    source = f"def custom_kernel(xs):\n    return {answer}\n"
    code, text = run_python(written(tmp_path, problem(), source), "--test")
    assert (code, words in text) == (1, True), text


CPP_RIGHT = '#include "task.h"\noutput_t custom_kernel(input_t data) { return ref_kernel(data); }\n'


def run_cpp(folder: Path, *words: str) -> tuple[int, str]:
    build = ["g++", "-O1", "-std=c++20", "-x", "c++", "eval.cu", "-o", "eval"]
    subprocess.run(build, cwd=folder, timeout=RUN_S, check=True)
    ended = subprocess.run(
        ["./eval", *words], cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_a_submission_in_cpp_is_checked_timed_and_scored(tmp_path: Path) -> None:
    version = compile_problem("one", {"reference.cu": CPP.encode()})
    folder = written(tmp_path, version, CPP_RIGHT)
    code, text = run_cpp(folder)
    assert code == 0, text
    assert "check: passed, 2 cases with 5 calls each\nbenchmark 1: " in text
    assert speed_up(text) > 0
    wrong = "{ auto output = ref_kernel(data); output[0] += 1; return output; }"
    written(tmp_path, version, CPP_RIGHT.replace("{ return ref_kernel(data); }", wrong))
    assert run_cpp(folder, "--test")[0] == 1


CPP_CHECKS = {
    "input and output": (
        "std::string check_implementation(input_t data, const output_t &output) {\n"
        '    return output == ref_kernel(data) ? "" : "other values";\n}\n'
    ),
    "the reference's first": (
        "bool check_implementation(output_t expected, output_t got) {\n"
        "    for (int i = 0; i < LENGTH; i++)\n"
        "        if (!(got[i] / expected[i] == 1)) return false;\n"
        "    return true;\n}\n"
    ),
    "a text": (
        "const char *check_implementation(output_t output, output_t expected) {\n"
        '    return output == expected ? "" : "other values";\n}\n'
    ),
}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.parametrize("check", CPP_CHECKS)
def test_a_check_in_cpp_gets_what_its_parameters_tell(tmp_path: Path, check: str) -> None:
    head = CPP[: CPP.index("bool check")].replace(
        "#include <vector>", "#include <string>\n#include <vector>"
    )
    text = f"{head}{CPP_CHECKS[check]}#endif\n"
    version = compile_problem("one", {"reference.cu": text.encode()})
    assert run_cpp(written(tmp_path, version, CPP_RIGHT), "--test")[0] == 0
    for answer in ("data", "output_t(data.size())"):
        wrong = CPP_RIGHT.replace("ref_kernel(data)", answer)
        code, said = run_cpp(written(tmp_path, version, wrong), "--test")
        assert (code, "check: wrong answer" in said) == (1, True), said


def test_a_problem_fills_in_its_own_cases() -> None:
    files = read_problem_files(ROOT / "problems" / "vectoradd")
    manifest = json.loads(compile_problem("vectoradd", files).manifest)
    text = render_evaluation("eval.py", manifest).decode()
    sizes = [case["args"] for case in manifest["benchmarks"]]
    for args in sizes:
        shown = {key: value for key, value in args.items() if key != "seed"}
        assert f"    {shown!r},\n" in text
    assert "'seed'" not in text
    assert f'RANKING = "{manifest["ranking_by"]}"' in text
    assert 'CHECK = "input_output"' in text


def test_a_problem_in_cpp_fills_in_its_arguments_in_order() -> None:
    manifest: Mapping[str, object] = {
        "lang": "cu",
        "files": {},
        "ranking_by": "geom",
        "tests": [{"args": {"mode": 'a"b', "size": 4, "seed": 1}}],
        "benchmarks": [{"args": {"mode": "x", "size": 8, "seed": 2}}],
    }
    header = b'constexpr std::array<const char *, 3> ArgumentNames = {"size", "seed", "mode"};'
    text = render_evaluation("eval.cu", manifest, {"task.h": header}).decode()
    assert (
        r"TESTS = {" + "\n" + r'    [](unsigned seed) { return generate_input(4, seed, "a\"b"); },'
        in text
    )
    assert 'return generate_input(8, seed, "x"); },' in text


def test_what_only_the_harness_runs_has_no_such_program() -> None:
    model = json.loads(compile_problem("p", {"9_Add.py": MODEL}, ["CPU"]).manifest)
    assert evaluation_files(model) == ()
    with pytest.raises(Refused, match=r"no evaluation file 'eval.py'; available: none"):
        render_evaluation("eval.py", model)
    with pytest.raises(Refused, match=r"available: eval.py, utils.py, eval.cu, utils.h"):
        render_evaluation("../eval.py")


@pytest.mark.parametrize("name", ["eval.py", "eval.cu"])
def test_its_procedure_has_the_numbers_of_the_harness(name: str) -> None:
    text = render_evaluation(name).decode()
    cpu, cuda = (policy.policy_for(device, "ranked") for device in ("cpu", "cuda"))
    words = " ".join(text.replace("\n//", "\n").split())
    looks = [str(look) for look in cpu.looks]
    assert f"After {', '.join(looks[:-1])} and {looks[-1]} pairs" in words
    assert cuda.looks == cpu.looks
    assert f"is within {100 * cpu.precision:g} % of the mean on both sides" in words
    assert f"(on a GPU {100 * cuda.precision:g} %)" in words
    assert f"it has taken {cpu.wall_s:g} s (on a GPU {cuda.wall_s:g} s)" in words
    cpu_ms, cuda_ms = cpu.block_us / 1000, cuda.block_us / 1000
    assert f"about {cpu_ms:g} ms: 4 to {cpu.calls_max} calls" in words
    assert f"(on a GPU {cuda_ms:g} ms, up to {cuda.calls_max})" in words
    # And it does what it says.
    for number in (cpu.block_us, cuda.block_us):
        assert re.search(rf"\b{number:.0f}\b", text.replace("_", "") if name == "eval.py" else text)


def test_the_program_is_short() -> None:
    assert len(render_evaluation("eval.py").splitlines()) <= 200
    assert len(render_evaluation("eval.cu").splitlines()) <= 200
