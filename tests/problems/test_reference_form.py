"""The parameters of a reference's functions tell how they are called, in every public form."""

import ast
import json
from pathlib import Path

import pytest

from harness.messages import RunReport
from shared.errors import Refused
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.reference_form import find_check_form
from tests.support.harness import Host, Warm

HEAD = "#!POPCORN gpus CPU\nfrom typing import List\nimport torch\n"
DOUBLE = "def custom_kernel(xs):\n    return [2 * x for x in xs]\n"
WRONG = "def custom_kernel(xs):\n    return [2.5 * x for x in xs]\n"
# It writes to its input what a check that computes the answer from it would accept.
ZEROED = "def custom_kernel(xs):\n    return [x.zero_() for x in xs]\n"
IDENTITY = "def custom_kernel(xs):\n    return [x.clone() for x in xs]\n"
GENERATORS = {
    "nothing": "def generate_input() -> List[torch.Tensor]:\n    return [torch.randn(64)]\n",
    "seed": (
        "def generate_input(seed: int) -> List[torch.Tensor]:\n"
        "    gen = torch.Generator(device='cuda')\n"
        "    gen.manual_seed(seed)\n"
        "    return [torch.randn(64, generator=gen, device='cuda')]\n"
    ),
    "defaults": (
        "def generate_input(size: int = 32, seed: int = 0) -> List[torch.Tensor]:\n"
        "    torch.manual_seed(seed)\n"
        "    return [torch.randn(size)]\n"
    ),
}
TENSORS = "List[torch.Tensor]"
REFERENCE = f"def ref_kernel(xs: {TENSORS}) -> {TENSORS}:\n    return [2 * x for x in xs]\n"
CHECKS = {
    "two outputs": (
        f"def check_implementation(user_output: {TENSORS}, reference_output: {TENSORS}) -> bool:\n"
        "    return all(torch.allclose(*pair) for pair in zip(user_output, reference_output))\n"
    ),
    "two outputs, other names": (
        f"def check_implementation(custom_output: {TENSORS}, ref_output: {TENSORS}) -> bool:\n"
        "    return (custom_output[0] == ref_output[0]).all()\n"
    ),
    "the reference's first": (
        f"def check_implementation(ref_out: {TENSORS}, submission_out: {TENSORS}) -> bool:\n"
        "    return bool(torch.allclose(submission_out[0] / ref_out[0], torch.ones(1)))\n"
    ),
    "input and output": (
        f"def check_implementation(input: {TENSORS}, custom_output: {TENSORS}) -> str:\n"
        "    reference_output = ref_kernel(input)\n"
        "    if torch.equal(custom_output[0], reference_output[0]):\n"
        "        return ''\n"
        "    return 'the values differ'\n"
    ),
}


@pytest.mark.parametrize(
    ("parameters", "form"),
    [
        ("user_output, reference_output", "outputs"),
        ("custom_output, ref_output", "outputs"),
        ("output, expected, rtol=1e-3", "outputs"),
        ("y, y_ref", "outputs"),
        ("ref_out: output_t, submission_out: output_t", "reference_outputs"),
        ("expected, actual", "reference_outputs"),
        ("input, custom_output", ""),
        ("data: input_t, output: output_t", ""),
        # The reference calls its input so, and a type says what a name does not.
        ("xs, y", ""),
        ("a: int, b: float", ""),
        ("a: float, b: float", "outputs"),
        ("a: 'int', b: 'float'", ""),
        ("a: input_t, b", ""),
        ("a, b", None),
        ("user_input, output", None),
        ("input, expected", None),
        ("a, b, c", None),
        ("got, want, *, rtol", None),
        ("*outputs", None),
    ],
)
def test_names_and_annotations_tell_what_a_check_takes(parameters: str, form: str | None) -> None:
    source = (
        "def generate_input() -> int: ...\ndef ref_kernel(xs: int) -> float: ...\n"
        f"def check_implementation({parameters}): ...\n"
    )
    assert find_check_form(ast.parse(source)) == form


def test_a_check_made_by_the_public_helper_takes_input_and_output() -> None:
    source = "check_implementation = make_match_reference(ref_kernel, rtol=1e-3)\n"
    imported = "from utils import make_match_reference\n"
    assert find_check_form(ast.parse(imported + source)) == ""
    assert find_check_form(ast.parse(source)) is None


def compiled(generator: str, check: str) -> ProblemVersion:
    text = HEAD + GENERATORS[generator] + REFERENCE + CHECKS[check]
    return compile_problem("double", {"reference.py": text.encode()})


@pytest.mark.parametrize(
    ("generator", "cases"),
    [
        ("nothing", [{"name": "case", "args": {}}]),
        ("seed", [{"name": "seed=42", "args": {"seed": 42}}]),
        ("defaults", [{"name": "size=32 seed=0", "args": {"size": 32, "seed": 0}}]),
    ],
)
@pytest.mark.parametrize("check", CHECKS)
def test_defaults_are_the_only_case(generator: str, cases: list[object], check: str) -> None:
    manifest = json.loads(compiled(generator, check).manifest)
    assert manifest["tests"] == manifest["benchmarks"] == cases
    assert manifest["calls"] == 5


def test_what_a_parameter_cannot_be_told_from_is_refused_with_the_line_to_write() -> None:
    text = HEAD + GENERATORS["seed"] + REFERENCE + "def check_implementation(a, b): ...\n"
    with pytest.raises(Refused, match=r"write `def check_implementation\(custom_output, ref_out"):
        compile_problem("double", {"reference.py": text.encode()})


def test_a_generator_without_cases_is_told_the_lines_of_a_task_yml() -> None:
    text = HEAD + REFERENCE + CHECKS["two outputs"]
    text += "def generate_input(size: int, scale: float, seed: int): ...\n"
    with pytest.raises(Refused, match="needs size, scale: give defaults in the file") as caught:
        compile_problem("double", {"my_reference.py": text.encode()})
    _, _, lines = caught.value.reason.partition("beside it:\n")
    files = {"task.yml": lines.encode(), "my_reference.py": text.encode()}
    manifest = json.loads(compile_problem("double", files, ["CPU"]).manifest)
    assert [case["args"] for case in manifest["tests"]] == [
        {"size": 1024, "scale": 1.0, "seed": 42}
    ]
    # The check is called as in the file alone.
    assert manifest["form"] == "outputs"


def test_only_defaults_that_a_case_can_hold_are_arguments() -> None:
    generator = (
        "def generate_input(n=2, dtype=torch.float32, shape=(2, 3), *, mode='a b', e=1e999):"
    )
    text = HEAD + f"{generator} ...\n" + REFERENCE + CHECKS["two outputs"]
    manifest = json.loads(compile_problem("double", {"reference.py": text.encode()}).manifest)
    assert manifest["tests"][0]["args"] == {"n": 2, "mode": "a b"}


@pytest.mark.parametrize(
    "hostile",
    [
        "def check_implementation(a: " + "|".join(["x"] * 3000) + ", b): ...\n",
        "def generate_input(n=" + "-" * 3000 + "1): ...\n",
        "if x: ...\n" + "elif x: ...\n" * 900,
    ],
)
def test_a_file_nested_too_deeply_is_refused(hostile: str) -> None:
    text = HEAD + GENERATORS["nothing"] + REFERENCE + "def check_implementation(a, b): ...\n"
    with pytest.raises(Refused):
        compile_problem("double", {"reference.py": (text + hostile).encode()})


@pytest.fixture
def double(tmp_path: Path, warm: Warm) -> Host:
    return Host(tmp_path, warm)


def run(host: Host, version: ProblemVersion, source: str) -> RunReport:
    manifest = json.loads(version.manifest)
    host.files = {name: data.decode() for name, data in version.files.items()}
    host.told_besides = {key: manifest[key] for key in ("tests", "benchmarks", "calls")}
    host.told_besides["form"] = manifest.get("form", "")
    return host.run(source, "test")


FORMS = [("nothing", check) for check in CHECKS] + [
    ("seed", "input and output"),
    ("defaults", "two outputs"),
]


@pytest.mark.parametrize(("generator", "check"), FORMS)
def test_a_run_of_each_form_takes_right_answers_and_no_others(
    double: Host, generator: str, check: str
) -> None:
    version = compiled(generator, check)
    typed = "from task import input_t, output_t\n" + DOUBLE.replace(
        "(xs)", "(xs: input_t) -> output_t"
    )
    passed = run(double, version, typed)
    assert (passed.failure_code, passed.verdict) == ("", "passed"), passed.reason
    for source in (WRONG, ZEROED, IDENTITY):
        failed = run(double, version, source)
        assert (failed.failure_code, failed.verdict) == ("", "wrong_answer"), failed.reason


def test_a_check_of_input_and_output_does_not_get_the_references_output(double: Host) -> None:
    """Such a check may accept what differs from the reference."""
    threefold = CHECKS["input and output"].replace("ref_kernel(input)", "[3 * x for x in input]")
    text = HEAD + GENERATORS["nothing"] + REFERENCE + threefold
    version = compile_problem("double", {"reference.py": text.encode()})
    assert run(double, version, DOUBLE.replace("2 *", "3 *")).verdict == "passed"
    assert run(double, version, DOUBLE).verdict == "wrong_answer"
