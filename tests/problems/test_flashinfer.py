"""FlashInfer-Trace: definitions are problems, solutions are submissions, runs are traces."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.build.command import compiles_at_import
from shared.api.submissions import FullSubmission, SubmissionRequest
from shared.errors import Refused
from shared.problem_folders import read_problem_files
from shared.problem_versions import load_problem
from shared.problems.compilation import compile_problem
from shared.problems.flashinfer import TENSORS
from shared.problems.flashinfer_schema import DEFINITION, WORKLOADS
from shared.problems.flashinfer_solutions import convert_solution, make_traces
from shared.problems.submission_file import toolchains
from tests.cli.command_runner import run_warpboard
from tests.problems.inspection import Inspector
from tests.problems.test_check_forms import laid_out
from tests.support.api_examples import make_example
from tests.support.harness import Warm
from warpboard.files import read_submission
from warpboard.local_run import LocalHarness

SET = Path(__file__).parent / "flashinfer"
FILE = SET / "definitions" / "norm" / "ragged_norm_h8.json"
FILES = read_problem_files(FILE)
OFFSETS = f"{TENSORS}tensors/offsets.safetensors"
VARIABLE = "WARPBOARD_FLASHINFER_TRACE"
# A folder where pip installed flashinfer-bench with what its data models import.
PACKAGE = "WARPBOARD_FLASHINFER_BENCH"
# Run in a process of its own: reads documents with the models of the public package.
READ_WITH_PACKAGE = """
import json, sys
from flashinfer_bench import data
models = json.load(sys.stdin)
read = {
    name: [getattr(data, name).model_validate(document).model_dump(mode="json") for document in all]
    for name, all in models.items()
}
languages = [language.value for language in data.SupportedLanguages]
bindings = [binding.value for binding in data.SupportedBindings]
print(json.dumps(read | {"languages": languages, "bindings": bindings}))
"""
SHORT, LONG = "b0a1c2d3-short", "b0a1c2d3-long"


def changed(name: str, change: Callable[[Any], object]) -> dict[str, bytes]:
    """Return the example with a change to one of its JSON documents."""
    values = [json.loads(line) for line in FILES[name].splitlines()] if name == WORKLOADS else []
    value = values[0] if values else json.loads(FILES[name])
    change(value)
    lines = [json.dumps(item) for item in values or [value]]
    return FILES | {name: "\n".join(lines).encode()}


def test_a_definition_is_read_with_its_workloads() -> None:
    problem = load_problem(FILE, None, ("CPU",))
    manifest = problem.parse_manifest()
    assert problem.slug == "ragged_norm_h8"
    assert [case["args"]["workload"] for case in manifest["tests"]] == [SHORT, LONG]
    assert manifest["benchmarks"] == manifest["tests"]
    assert manifest["description"].startswith("RMS normalisation of ragged rows")
    assert set(manifest["files"]) == {
        *("definition.json", "workloads.jsonl"),
        *("reference.py", "task.py", "definition_code.py", "definition_data.py"),
    }
    data = problem.version_files["definition_data.py"].decode()
    short = ast.literal_eval(data.splitlines()[0].removeprefix("WORKLOADS = "))[SHORT]
    assert short["inputs"]["x"] == ["random", "float16", [7, 8]]
    assert short["inputs"]["eps"] == ["scalar", 1e-6]
    assert short["inputs"]["offsets"] == ["tensor", "int32", [3], "AAAAAAMAAAAHAAAA"]
    assert short["outputs"] == {"output": ["float16", [7, 8]], "lengths": ["int32", [2]]}
    (baseline,) = compile_problem("p", FILES, ["CPU"]).baselines
    assert (baseline.name, b"def custom_kernel" in baseline.data) == ("reference", True)


def test_a_definition_without_workloads_is_refused(tmp_path: Path) -> None:
    alone = tmp_path / "norm.json"
    alone.write_bytes(FILE.read_bytes())
    with pytest.raises(Refused, match=r"no workloads of norm\.json: .*norm\.jsonl is missing"):
        load_problem(alone, None, ("CPU",))
    with pytest.raises(Refused, match=r"workloads\.jsonl is missing: put it beside"):
        compile_problem("p", {DEFINITION: FILES[DEFINITION]}, ["CPU"])


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (DEFINITION, lambda it: it.pop("axes"), "the key 'axes' is missing: add it"),
        (DEFINITION, lambda it: it.update(reference="def go(): ..."), "does not define run"),
        (DEFINITION, lambda it: it.update(constraint=[]), "'constraint': did you mean"),
        (DEFINITION, lambda it: it["axes"]["rows"].update(size=3), "unknown key 'size' in"),
        (DEFINITION, lambda it: it["inputs"]["x"].update(layout="row"), "unknown key 'layout'"),
        (WORKLOADS, lambda it: it["workload"].update(tolerances={}), "unknown key 'tolerances'"),
        (
            WORKLOADS,
            lambda it: it["workload"]["inputs"].update(x={"type": "custom"}),
            "has no custom_inputs_entrypoint",
        ),
        (DEFINITION, lambda it: it.update(reference="def run("), "not Python"),
        (DEFINITION, lambda it: it["inputs"]["x"].update(dtype="float4_e2m1"), "'x' has dtype"),
        (DEFINITION, lambda it: it["inputs"]["x"].update(shape=["n"]), "unknown axis 'n'"),
        (DEFINITION, lambda it: it["outputs"]["output"].update(shape=None), "a plain number"),
        (DEFINITION, lambda it: it["axes"]["hidden"].pop("value"), "'hidden' has no value"),
        (WORKLOADS, lambda it: it["workload"]["axes"].pop("rows"), "no size for axis 'rows'"),
        (WORKLOADS, lambda it: it["workload"]["inputs"].pop("x"), "has no input 'x'"),
        (WORKLOADS, lambda it: it["workload"].update(uuid=LONG), "two workloads have one uuid"),
        (
            WORKLOADS,
            lambda it: it["workload"]["inputs"].update(y={"type": "random"}),
            "the unknown input 'y'",
        ),
        (
            WORKLOADS,
            lambda it: it["workload"]["inputs"].update(eps={"type": "random"}),
            "gives 'eps' as random: it is a scalar",
        ),
        (
            WORKLOADS,
            lambda it: it["workload"]["inputs"]["offsets"].update(path="../../etc/passwd"),
            "is outside the set",
        ),
        (
            WORKLOADS,
            lambda it: it["workload"]["inputs"]["offsets"].update(path="/etc/passwd"),
            "is outside the set",
        ),
        (
            WORKLOADS,
            lambda it: it["workload"]["inputs"]["offsets"].update(path="tensors/no.safetensors"),
            "names 'tensors/no.safetensors', which is missing",
        ),
        (
            WORKLOADS,
            lambda it: it["workload"]["inputs"]["offsets"].update(tensor_key="none"),
            "the tensor 'none' is not there: there are long, short",
        ),
        (
            WORKLOADS,
            lambda it: it["workload"]["inputs"]["offsets"].update(tensor_key="long"),
            "needs 'offsets' as I32 [3], but ./tensors/offsets.safetensors has I32 [4]",
        ),
    ],
)
def test_what_is_wrong_is_named(name: str, change: Callable[[Any], object], words: str) -> None:
    with pytest.raises(Refused) as caught:
        compile_problem("p", changed(name, change), ["CPU"])
    assert caught.value.code == "bad_problem"
    assert words in caught.value.reason


def stored(header: object, data: bytes = b"") -> bytes:
    """Return a safetensors file."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "its header is cut off"),
        (b"\xff" * 64, "its header is cut off"),
        ((2**40).to_bytes(8, "little") + bytes(64), "its header is cut off"),
        (stored([1]), "its header is not a map"),
        ((9).to_bytes(8, "little") + b"not json!", "not JSON"),
        (stored({"short": 7}), "is described by something else than dtype, shape and"),
        (
            stored({"short": {"dtype": "I32", "shape": [3], "data_offsets": [0, 12]}}),
            "lies outside the file (0 to 12 of 0 bytes)",
        ),
        (
            stored({"short": {"dtype": "I32", "shape": [3], "data_offsets": [0, 8]}}, bytes(8)),
            "has 8 bytes for 'offsets', not 12",
        ),
        (
            stored({"short": {"dtype": "I32", "shape": [-3], "data_offsets": [0, 0]}}),
            "is described by something else",
        ),
    ],
)
def test_a_bad_file_of_tensors_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(Refused) as caught:
        compile_problem("p", FILES | {OFFSETS: data}, ["CPU"])
    assert words in caught.value.reason


def test_tensors_that_are_too_large_for_a_problem_are_refused() -> None:
    count = 400_000
    entry = {"dtype": "I32", "shape": [count], "data_offsets": [0, 4 * count]}

    def enlarge(line: Any) -> None:
        line["workload"]["axes"]["offsets"] = count

    files = changed(WORKLOADS, enlarge)
    lines = files[WORKLOADS].splitlines()[:1]
    large = {WORKLOADS: lines[0], OFFSETS: stored({"short": entry}, bytes(4 * count))}
    with pytest.raises(Refused, match="the tensors of its workloads take 2,133,"):
        compile_problem("p", files | large, ["CPU"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda it: it.pop("spec"), "not a FlashInfer-Trace solution: the solution: the key"),
        (lambda it: it["spec"].update(language="rust"), "the solution is in rust: possible are"),
        (
            lambda it: it["spec"].update(language="cuda"),
            "the solution is in cuda with the binding tvm-ffi: possible are python, triton,",
        ),
        (
            lambda it: it["spec"].update(language="cpp", binding="other"),
            "binding other: possible are python, triton, tilelang, and cpp or cuda with the",
        ),
        (
            lambda it: it["spec"].update(language="cpp", binding="torch"),
            "the entry point 'main.py' is not one of the sources main.py in C++",
        ),
        (lambda it: it["spec"].update(entry_point="main.py"), "should match pattern"),
        (lambda it: it["spec"].update(entry_point="x.py::run"), "'x.py' is not one of the sources"),
        (lambda it: it["sources"][0].update(path="../main.py"), "a source outside its folder"),
    ],
)
def test_a_bad_solution_is_refused(change: Callable[[Any], object], words: str) -> None:
    solution = json.loads((SET / "solutions" / "value.json").read_text())
    change(solution)
    with pytest.raises(Refused) as caught:
        convert_solution(json.dumps(solution).encode())
    assert caught.value.code == "bad_file"
    assert words in caught.value.reason


def test_a_solution_in_c_plus_plus_or_cuda_is_built_with_torch() -> None:
    text = (SET / "solutions" / "native.json").read_bytes()
    source = convert_solution(text).decode()
    assert source.startswith("#!POPCORN leaderboard ragged_norm_h8\n")
    assert compiles_at_import(source.encode())
    assert toolchains("native.py", source) == ["g++", "ninja"]
    cuda = json.loads(text)
    cuda["spec"] |= {"language": "cuda", "entry_point": "kernel.cu::run"}
    cuda["sources"].append({"path": "kernel.cu", "content": "__global__ void scale() {}\n"})
    source = convert_solution(json.dumps(cuda).encode()).decode()
    assert toolchains("native.py", source, "H100") == ["g++", "ninja", "nvcc"]
    assert "with_cuda=True" in source


def test_a_solution_in_tilelang_is_python() -> None:
    solution = json.loads((SET / "solutions" / "value.json").read_text())
    source = convert_solution(json.dumps(solution).encode())
    solution["spec"]["language"] = "tilelang"
    assert convert_solution(json.dumps(solution).encode()) == source


def finished_submission() -> FullSubmission:
    """Return a submission that passed the short workload and failed the long one."""
    cases = [
        {"name": f"workload={SHORT} seed=42", "stage": "time", "verdict": "passed", "time_us": 20.0}
        | {"is_hidden": False, "vs_baseline": {"reference": 2.5}},
        {"name": f"workload={LONG} seed=42", "stage": "check", "verdict": "wrong_answer"}
        | {"is_hidden": False},
    ]
    return make_example(
        FullSubmission,
        name="value.py",
        gpu="H100",
        verdict="wrong_answer",
        cases=cases,
        environment={"torch": "2.9"},
        finished_at="2026-01-02T03:04:05Z",
    )


def test_runs_are_traces() -> None:
    submission = finished_submission()
    short, long = make_traces(FILES[DEFINITION], FILES[WORKLOADS], submission)
    assert (short["definition"], short["solution"]) == ("ragged_norm_h8", "value")
    assert short["workload"] == json.loads(FILES[WORKLOADS].splitlines()[0])["workload"]
    assert short["evaluation"] == {
        "status": "PASSED",
        "environment": {"hardware": "H100", "libs": {"torch": "2.9"}},
        "timestamp": "2026-01-02T03:04:05+00:00",
        "log": "",
        "correctness": {"max_relative_error": "NaN", "max_absolute_error": "NaN"},
        "performance": {
            "latency_ms": 0.02,
            "reference_latency_ms": 0.05,
            "speedup_factor": 2.5,
        },
    }
    assert long["evaluation"]["status"] == "INCORRECT_NUMERICAL"
    assert (long["evaluation"]["correctness"] is None, long["evaluation"]["performance"]) == (
        False,
        None,
    )
    failed = make_example(FullSubmission, name="value.py", gpu="CPU", verdict="import_error")
    for trace in make_traces(FILES[DEFINITION], FILES[WORKLOADS], failed):
        assert trace["evaluation"]["status"] == "COMPILE_ERROR"
        assert trace["evaluation"]["correctness"] is None


def test_a_definition_passes_the_check_of_its_own_code(
    inspector: Inspector, tmp_path: Path
) -> None:
    report = inspector.look(laid_out(tmp_path, FILES | {"warpboard.yml": b"gpus: [CPU]\n"}))
    errors = [finding for finding in report.findings if finding.level == "error"]
    assert (report.failure_code, errors) == ("", [])


@pytest.mark.box
@pytest.mark.long
def test_a_definition_passes_its_check(tmp_path: Path) -> None:
    command = "problem", "check", FILE, "--gpu", "CPU"
    result = run_warpboard(*command, XDG_CACHE_HOME=str(tmp_path))
    assert result.exit_code == 0, result.output
    # Its reference is the solution.
    assert "1 of 1 correct passed" in result.output


def judge(warm: Warm, *names: str) -> dict[str, tuple[str, str]]:
    """Run solutions of the example; return the verdict and the reason of each."""
    problem, harness = load_problem(FILE, None, ("CPU",)), LocalHarness(warm.harness)
    verdicts = {}
    for name in names:
        (file,) = read_submission(SET / "solutions" / f"{name}.json")
        submission = SubmissionRequest(file.name, file.data, problem.slug, "test")
        run = warm.runner.run(harness.run(problem, submission))
        verdicts[name] = run["verdict"], run["reason"]
    return verdicts


@pytest.mark.long
def test_solutions_of_both_styles_get_their_verdicts(warm: Warm) -> None:
    verdicts = judge(warm, "destination", "value", "without_eps")
    assert {name: verdict for name, (verdict, _) in verdicts.items()} == {
        "destination": "passed",
        "value": "passed",
        "without_eps": "wrong_answer",
    }, verdicts


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_solution_in_c_plus_plus_is_compiled_and_passes(warm: Warm) -> None:
    verdict, reason = judge(warm, "native")["native"]
    assert verdict == "passed", reason


def test_the_public_package_reads_what_we_read_and_write() -> None:
    folder = os.environ.get(PACKAGE)
    if not folder:
        pytest.skip(f"{PACKAGE} names no folder with flashinfer-bench")
    solutions = [json.loads(path.read_text()) for path in sorted(SET.glob("solutions/*.json"))]
    traces = [
        *make_traces(FILES[DEFINITION], FILES[WORKLOADS], finished_submission()),
        *make_traces(
            FILES[DEFINITION],
            FILES[WORKLOADS],
            make_example(FullSubmission, name="value.py", gpu="CPU", verdict="import_error"),
        ),
    ]
    documents = {
        "Definition": [json.loads(FILES[DEFINITION])],
        "Solution": solutions,
        "Trace": traces,
    }
    process = subprocess.run(
        [sys.executable, "-c", READ_WITH_PACKAGE],
        input=json.dumps(documents),
        env=os.environ | {"PYTHONPATH": folder},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    read = json.loads(process.stdout)
    for before, after in zip(solutions, read["Solution"], strict=True):
        both = (convert_solution(json.dumps(it).encode()) for it in (before, after))
        assert next(both) == next(both)
    (definition,) = read["Definition"]
    files = FILES | {DEFINITION: json.dumps(definition).encode()}
    version, again = (compile_problem("p", it, ["CPU"]) for it in (FILES, files))
    for name in ("reference.py", "definition_code.py", "definition_data.py"):
        assert version.files[name] == again.files[name]
    assert [trace["evaluation"]["status"] for trace in read["Trace"]] == [
        trace["evaluation"]["status"] for trace in traces
    ]
    assert read["Trace"][0]["evaluation"]["performance"]["speedup_factor"] == 2.5
    # Each of the package's languages and bindings is possible, or refused by its name.
    assert set(read["languages"]) == {"python", "triton", "tilelang", "cpp", "cuda"}
    assert set(read["bindings"]) == {"torch", "tvm-ffi"}


@pytest.fixture
def public_set() -> Path:
    """The public set that a variable names."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} names no folder of FlashInfer-Trace with definitions/")
    return Path(folder)


def test_the_solutions_of_a_public_set_can_be_submitted(public_set: Path) -> None:
    files = sorted(public_set.glob("solutions/**/*.json"))
    assert files
    reasons = []
    for file in files:
        try:
            (solution,) = read_submission(file)
            ast.parse(solution.data)
        except Refused as refused:
            reasons.append(f"{file.name}: {refused.reason}")
    # The format allows these, and we have no binding for them.
    assert not [reason for reason in reasons if "with the binding tvm-ffi: possible" not in reason]


def test_the_definitions_of_a_public_set_load(public_set: Path) -> None:
    files = sorted(public_set.glob("definitions/**/*.json"))
    assert files
    reasons = {}
    for file in files:
        try:
            load_problem(file, None, ("CPU",))
        except Refused as refused:
            reasons[file.stem] = refused.reason
    # These the format allows and we do not.
    known = ("no workloads of", "has dtype", "workloads: 1 to", "which is missing", "plain number")
    assert not {
        name: reason
        for name, reason in reasons.items()
        if not any(word in reason for word in (*known, "bytes as text"))
    }
    assert len(reasons) < len(files), "not one definition loads"
