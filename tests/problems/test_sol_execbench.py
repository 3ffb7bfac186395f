"""SOL-ExecBench: definitions with flat workloads are problems."""

import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.check import utilities
from shared.errors import Refused
from shared.problem_folders import read_problem_files
from shared.problem_versions import load_problem
from shared.problems.compilation import compile_problem
from shared.problems.flashinfer_schema import (
    DEFINITION,
    FLAT_WORKLOADS,
    WORKLOADS,
    Definition,
    Workload,
    resolve_axes,
)
from tests.problems.inspection import Inspector
from tests.problems.test_check_forms import laid_out

FOR_CPU = {"warpboard.yml": b"gpus: [CPU]\n"}
VARIABLE = "WARPBOARD_SOL_EXECBENCH"
REFERENCE = """\
import torch

def make_inputs(axes_and_scalars, device):
    rows, experts = axes_and_scalars["rows"], axes_and_scalars["experts"]
    assert axes_and_scalars["scale"] == 2.0
    return {"chosen": torch.randint(0, experts, (rows,), device=device, dtype=torch.int32)}

def run(x, chosen, scale):
    return x * scale + chosen[:, None].to(x.dtype), chosen.repeat(2)
"""
SCHEMA: dict[str, Any] = {
    "name": "routed_scale_e4",
    "hf_id": None,
    "op_type": "moe",
    "description": "Scales rows and adds the expert of each.",
    "custom_inputs_entrypoint": "make_inputs",
    "axes": {
        "rows": {"type": "var", "description": "how many"},
        "width": {"type": "const", "value": 16},
        "experts": {"type": "const", "value": 1000},
        "twice": {"type": "expr", "expression": "rows * 2"},
    },
    "inputs": {
        "x": {"shape": ["rows", "width"], "dtype": "float32"},
        "chosen": {"shape": ["rows"], "dtype": "int32"},
        "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {
        "y": {"shape": ["rows", "width"], "dtype": "float32"},
        "z": {"shape": ["twice"], "dtype": "int32"},
    },
    "reference": REFERENCE,
}


def workload(uuid: str, rows: int, **more: Any) -> dict[str, Any]:
    inputs = {"x": {"type": "random"}, "chosen": {"type": "custom"}}
    scale = {"scale": {"type": "scalar", "value": 2.0}}
    return {"uuid": uuid, "axes": {"rows": rows}, "inputs": inputs | scale, **more}


def sol_folder(folder: Path, *workloads: dict[str, Any], **changes: Any) -> Path:
    """Write a problem as the public scripts do, with a copy of its reference beside it."""
    folder.mkdir()
    (folder / DEFINITION).write_text(json.dumps(SCHEMA | changes))
    (folder / "reference.py").write_text(REFERENCE)
    lines = [json.dumps(it) for it in workloads or (workload("a", 8), workload("b", 32))]
    (folder / FLAT_WORKLOADS).write_text("\n".join(lines))
    return folder


def test_a_folder_with_flat_workloads_is_a_problem(tmp_path: Path) -> None:
    folder = sol_folder(tmp_path / "routed")
    problem = load_problem(folder, None, ("CPU",))
    assert problem.slug == "routed"
    manifest = problem.parse_manifest()
    assert [case["args"]["workload"] for case in manifest["tests"]] == ["a", "b"]
    assert "Each workload says how close" in manifest["description"]
    # The file alone, and what a zip of the folder has, are the same problem.
    assert load_problem(folder / DEFINITION, "routed", ("CPU",)).digest == problem.digest
    zipped = {path.name: path.read_bytes() for path in folder.iterdir()}
    version = compile_problem("routed", zipped, ["CPU"])
    assert version.files["definition_data.py"] == problem.version_files["definition_data.py"]


def test_its_own_code_passes_the_inspection(tmp_path: Path, inspector: Inspector) -> None:
    folder = sol_folder(tmp_path / "routed")
    report = inspector.look(laid_out(tmp_path, read_problem_files(folder) | FOR_CPU))
    # The seed of a call also decides what the definition's own function makes.
    assert (report.failure_code, report.findings) == ("", [])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"custom_input_entrypoint": "f"}, "did you mean 'custom_inputs_entrypoint'"),
        ({"custom_inputs_entrypoint": "absent"}, "does not define absent"),
        ({"axes": {**SCHEMA["axes"], "twice": {"type": "expr"}}}, "'twice' has no expression"),
    ],
)
def test_what_a_definition_lacks_is_named(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    files = read_problem_files(sol_folder(tmp_path / "routed", **change))
    with pytest.raises(Refused, match=words):
        compile_problem("routed", files, ["CPU"])


@pytest.mark.parametrize(
    ("expression", "size"),
    [("rows * 2 + 1", 17), ("(rows - 4) // 3", 1), ("2 ** 3 % 5", 3), ("-(-rows / 4)", 2)],
)
def test_an_axis_is_computed_from_others(expression: str, size: int) -> None:
    assert computed(expression) == size


@pytest.mark.parametrize(
    "expression",
    [
        *("__import__('os').getpid()", "rows.real", "len(rows)", "other + 1", "rows / 3", "1 / 0"),
        *("9 ** 9 ** 9", "2 ** -70", "rows if rows else 1", "[rows][0]", "'a' * 9", "rows +"),
        *("(-1) ** 0.5", "2.0 ** 64 ** 64", "2147483648 * rows"),
    ],
)
def test_only_arithmetic_with_small_results_is_computed(expression: str) -> None:
    with pytest.raises(ValueError, match="axis 'twice'"):
        computed(expression)


@contextmanager
def loaded_reference(folder: Path) -> Iterator[Any]:
    """Load the code of a version, whose modules can be imported inside the block."""
    names = ("reference", "definition_code", "definition_data", "utils")
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.path.insert(0, str(folder))
    sys.modules["utils"] = utilities
    try:
        yield importlib.import_module("reference")
    finally:
        sys.path.remove(str(folder))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def computed(expression: str) -> int:
    axes = {**SCHEMA["axes"], "twice": {"type": "expr", "expression": expression}}
    definition = Definition.model_validate({**SCHEMA, "axes": axes})
    return resolve_axes(definition, Workload.model_validate(workload("a", 8)))["twice"]


@pytest.mark.parametrize(
    ("tolerance", "offset", "is_right"),
    [
        ({}, [1e-3] * 100, True),
        # One of a hundred elements may be wrong by the format's defaults, two may not.
        ({}, [9.0], True),
        ({}, [9.0, 9.0], False),
        ({}, [float("nan")], False),
        ({"required_matched_ratio": 1.0}, [9.0], False),
        ({"max_error_cap": 1.0}, [9.0], False),
        ({"max_atol": 1e-6, "max_rtol": 1e-6}, [1e-3] * 2, False),
    ],
)
def test_each_workload_has_its_own_tolerance(
    tmp_path: Path, torch: Any, tolerance: dict[str, Any], offset: list[float], is_right: bool
) -> None:
    more = {"tolerance": tolerance} if tolerance else {}
    changes = {
        "axes": {"rows": {"type": "var"}},
        "inputs": {"x": {"shape": ["rows"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["rows"], "dtype": "float32"}},
        "reference": "def run(x):\n    return x.sign() * (x.abs() + 1)\n",
        "custom_inputs_entrypoint": None,
    }
    line = {"uuid": "a", "axes": {"rows": 100}, "inputs": {"x": {"type": "random"}}, **more}
    files = read_problem_files(sol_folder(tmp_path / "signed", line, **changes))
    with loaded_reference(laid_out(tmp_path, files | FOR_CPU)) as reference:
        data = reference.generate_input("a", 3)
        answer = {"y": reference.ref_kernel(data)["y"].clone()}
        answer["y"][: len(offset)] += torch.tensor(offset)
        fresh = reference.generate_input("a", 3)
        assert reference.check_implementation(fresh, answer)[0] is is_right


@pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"{VARIABLE} names no checkout")
def test_every_public_definition_loads() -> None:
    folders = sorted(path.parent for path in Path(os.environ[VARIABLE]).rglob(DEFINITION))
    assert folders
    for folder in folders:
        try:
            load_problem(folder, "p", ("B200",))
        except Refused as refused:
            # Stored tensors are published apart from the definitions.
            assert "which is missing" in refused.reason  # noqa: PT017  (others load)


def test_workloads_of_both_forms_may_not_be_missing(tmp_path: Path) -> None:
    folder = sol_folder(tmp_path / "routed")
    (folder / FLAT_WORKLOADS).unlink()
    with pytest.raises(Refused, match=rf"no workloads of {DEFINITION}"):
        load_problem(folder, None, ("CPU",))
    (folder / WORKLOADS).write_text(json.dumps({"workload": workload("a", 8)}))
    assert load_problem(folder, None, ("CPU",)).slug == "routed"
