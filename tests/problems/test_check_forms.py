"""Problems of all forms are inspected; correct ones are clean."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from shared.problems.compilation import compile_problem
from tests.problems.inspection import Inspector
from tests.problems.test_native import FILES as NATIVE
from tests.problems.test_single_file import CPP_NEWER, RANDOM
from tests.problems.test_templates import MODEL, SINGLE

COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
NEWER = (
    SINGLE.replace(b"input()", b"input(seed: int)")
    .replace(b"allclose(got, want)", b"allclose(got, ref_kernel(data))")
    .replace(b"(got, want)", b"(data, got)")
)
WHOLE = {name: text.encode() for name, text in NATIVE.items()}
FORMS: Mapping[str, Mapping[str, bytes]] = {
    "older": {"reference_code.py": SINGLE},
    "newer": {"reference_code.py": NEWER},
    "model": {"9_Add.py": MODEL},
}


SMALL_MODEL = b"""#!POPCORN gpus CPU
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
def get_inputs():
    return [torch.rand(4, 60000)]
def get_init_inputs():
    return []
"""


def laid_out(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files as a problem version, in the form the harness gets."""
    version = compile_problem("p", files)
    for name, data in {**version.files, "manifest.json": version.manifest}.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_a_right_problem_of_one_file_is_clean(
    form: str, inspector: Inspector, tmp_path: Path
) -> None:
    report = inspector.look(laid_out(tmp_path, FORMS[form]))
    assert (report.failure_code, report.findings) == ("", [])


def test_a_model_without_chance_in_its_inputs_is_found(
    inspector: Inspector, tmp_path: Path
) -> None:
    fixed = MODEL.replace(b"torch.rand(", b"torch.ones(").replace(b"torch.randn(", b"torch.ones(")
    assert fixed != MODEL
    report = inspector.look(laid_out(tmp_path, {"9_Add.py": fixed}))
    assert "generator_fixed" in {
        finding.code for finding in report.findings if finding.level == "error"
    }


def test_a_model_whose_answer_is_zero_is_refused(inspector: Inspector, tmp_path: Path) -> None:
    source = SMALL_MODEL.replace(b"torch.softmax(x, dim=-1)", b"0 * x")
    report = inspector.look(laid_out(tmp_path, {"9_Add.py": source}))
    errors = {finding.code for finding in report.findings if finding.level == "error"}
    assert "answer_constant" in errors


def test_a_model_with_small_answers_and_its_sizes_as_numbers_is_clean(
    inspector: Inspector, tmp_path: Path
) -> None:
    report = inspector.look(laid_out(tmp_path, {"9_Small.py": SMALL_MODEL}))
    assert (report.failure_code, report.findings, report.untried) == ("", [], [])


def test_how_near_a_check_lets_lazy_answers_come_is_measured(
    inspector: Inspector, tmp_path: Path
) -> None:
    report = inspector.look(laid_out(tmp_path, {"9_Small.py": SMALL_MODEL}), is_scaled=True)
    (shares,) = report.shares.values()
    assert {share.code for share in shares.values()} >= {
        *("check_takes_zeros", "check_takes_constant", "check_takes_cached")
    }
    # The tolerance is 2 % of the mean and 0.01 % of each value, and the largest value is 1.6 means.
    assert 0.01 < shares["zeros"].share < 0.0126


@COMPILER
def test_a_problem_in_another_language_is_looked_at_too(
    inspector: Inspector, tmp_path: Path
) -> None:
    report = inspector.look(laid_out(tmp_path, WHOLE))
    # Its only number is drawn by the seed, and said of every element.
    assert {finding.code for finding in report.findings} == {"answer_constant", "entropy_low"}


@COMPILER
@pytest.mark.parametrize("text", [pytest.param(CPP_NEWER, marks=pytest.mark.long), RANDOM])
def test_a_right_problem_of_one_file_in_cpp_is_clean(
    text: str, inspector: Inspector, tmp_path: Path
) -> None:
    report = inspector.look(laid_out(tmp_path, {"reference.cu": text.encode()}))
    assert (report.failure_code, report.findings) == ("", [])


def test_of_a_problem_with_its_own_program_it_is_said_that_nothing_was_seen(
    inspector: Inspector, tmp_path: Path
) -> None:
    folder = laid_out(tmp_path, FORMS["older"])
    manifest = json.loads((folder / "manifest.json").read_bytes()) | {"main": "eval.py"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (finding,) = inspector.look(folder).findings
    assert (finding.code, finding.level, finding.where) == ("not_inspected", "warning", "eval.py")


def test_the_check_of_a_problem_with_its_own_program_is_shown_lazy_answers(
    inspector: Inspector, tmp_path: Path
) -> None:
    loose = SINGLE.replace(b"allclose(got, want)", b"allclose(got, want, atol=100)")
    folder = laid_out(tmp_path, {"reference_code.py": loose})
    manifest = json.loads((folder / "manifest.json").read_bytes()) | {"main": "eval.py"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    errors = {one.code for one in inspector.look(folder).findings if one.level == "error"}
    assert "check_takes_zeros" in errors
