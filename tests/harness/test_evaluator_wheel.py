"""The evaluator, installed from its wheel into an empty environment."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.platform import ROOT

pytestmark = [pytest.mark.box, pytest.mark.long, pytest.mark.timeout(600)]

CHECKOUT = "WARPBOARD_KERNELBENCH"
# What the wheels require of others; torch would take minutes to download.
THIRD_PARTY = ("torch", "numpy", "msgspec", "pydantic", "pyyaml")
MODEL = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return []
"""
PAGE = ROOT / "docs" / "evaluator.md"
# The program of the page reads `sources`, and names a problem of a checkout.
BEFORE = '''
RELU = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.clamp(min=0)
"""
sources = {"right": RELU, "wrong": RELU.replace("min=0", "min=1")}
'''
# The same with a definition in the form of FlashInfer-Trace.
MODEL_PATH = "KernelBench/level1/19_ReLU.py"
FLASHINFER = ROOT / "tests" / "problems" / "flashinfer"
DEFINITION = "definitions/norm/ragged_norm_h8.json"
BEFORE_DEFINITION = f'''
import json
from pathlib import Path

RIGHT = json.loads(Path("{DEFINITION}").read_text())["reference"] + """
def custom_kernel(data):
    results = run(*data["inputs"].values())
    for buffer, result in zip(data["outputs"].values(), results, strict=True):
        buffer.copy_(result)
    return data["outputs"]
"""
sources = {{"right": RIGHT, "wrong": RIGHT.replace("copy_(result)", "copy_(result + 1)")}}
'''
AFTER = """
import harness
print(harness.__file__)
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command that succeeds, and return what it prints."""
    environ = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    done = subprocess.run(
        command, env=environ, cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def requirements(name: str) -> Iterator[metadata.Distribution]:
    """Yield an installed package and all that it requires, without its extras."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        needed = [line for line in found[name].requires or () if "extra ==" not in line]
        waiting += [re.split(r"[\[>=<~!; (]", line)[0].lower() for line in needed]
    yield from found.values()


def copy_package(package: metadata.Distribution, site: Path) -> None:
    """Link the files of an installed package into another environment."""
    for file in package.files or ():
        source = Path(str(package.locate_file(file)))
        if ".." in file.parts or not source.is_file():
            continue
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            os.link(source, target)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with nothing of ours but two wheels."""
    folder = tmp_path_factory.mktemp("environment")
    wheels = folder / "wheels"
    wheel = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels)
    run(*wheel, ROOT / "harness", ROOT / "shared")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    (site,) = (folder / "venv").glob("lib/*/site-packages")
    for name in THIRD_PARTY:
        for package in requirements(name):
            copy_package(package, site)
    python = folder / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q")
    run(*pip, "--no-index", "--find-links", wheels, "warpboard-harness[problems]")
    return python


def require_three_lines(
    python: Path, checkout: Path, folder: Path, before: str = BEFORE, problem: str = MODEL_PATH
) -> None:
    """Run the program of the page as it is written there, in a checkout, or with its problem."""
    text = PAGE.read_text().partition("## Evaluate")[2]
    program = text.partition("```python\n")[2].partition("```")[0]
    assert MODEL_PATH in program
    program = program.replace(MODEL_PATH, problem)
    (folder / "program.py").write_text(before + program + AFTER)
    *lines, file = run(python, folder / "program.py", cwd=checkout).splitlines()
    assert Path(file).is_relative_to(python.parents[1])
    ended = {id_: rest for id_, *rest in map(str.split, lines)}
    assert sorted(ended) == ["right", "wrong"]
    verdict, speedup, *_ = ended["right"]
    assert verdict == "passed"
    assert float(speedup) > 0
    assert ended["wrong"] == ["wrong_answer", "None", "None"]


def test_three_lines_evaluate_a_model(python: Path, tmp_path: Path) -> None:
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    (folder / "19_ReLU.py").write_text(MODEL)
    require_three_lines(python, tmp_path, tmp_path)


def test_three_lines_evaluate_a_model_of_the_public_set(python: Path, tmp_path: Path) -> None:
    checkout = os.environ.get(CHECKOUT)
    if not checkout:
        pytest.skip(f"{CHECKOUT} names no checkout of its public set")
    require_three_lines(python, Path(checkout), tmp_path)


def test_three_lines_evaluate_a_definition_of_flashinfer_trace(
    python: Path, tmp_path: Path
) -> None:
    require_three_lines(python, FLASHINFER, tmp_path, BEFORE_DEFINITION, DEFINITION)
