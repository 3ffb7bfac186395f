"""Starter code: a generated template imports, and fails cleanly."""

import ast
import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.api.submissions import SubmissionRequest
from shared.checks.problem_files import ProblemFiles
from shared.errors import Refused
from shared.problem_folders import read_problem_files
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.submission_file import read_directives
from shared.problems.templates import (
    TemplateHeader,
    add_template_header,
    find_starter_template,
    render_template,
    starter_templates,
    template_sources,
)
from tests.problems.test_native import FILES as NATIVE
from tests.support.harness import Warm
from warpboard.local_run import LocalHarness

ROOT = Path(__file__).parent.parent.parent
SINGLE = b"""\
#!POPCORN gpus CPU
import torch


def generate_input():
    return torch.rand(8)


def ref_kernel(data):
    return data * 2


def check_implementation(got, want):
    return bool(torch.allclose(got, want))
"""
MODEL = b"""\
#!POPCORN gpus CPU
import torch


class Inner(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Model(torch.nn.Module):
    \"\"\"A layer.\"\"\"

    def __init__(self, width):
        super(Model, self).__init__()
        self.layer = torch.nn.Linear(width, width)
        self.inner = Inner()

    def forward(
        self,
        x,
    ):
        \"\"\"In two steps.\"\"\"
        found = self.layer(x)
        return self.inner(found)


width = 4


def get_inputs():
    return [torch.rand(2, width)]


def get_init_inputs():
    return [width]


if __name__ == "__main__":
    print(Model(4)(*get_inputs()))
"""
HEAD = TemplateHeader("p", "P", ["CPU", "H100"])


def version(files: Mapping[str, bytes]) -> ProblemVersion:
    return compile_problem("p", files)


def made(version: ProblemVersion, language: str, head: TemplateHeader = HEAD) -> str:
    manifest = json.loads(version.manifest)
    template = find_starter_template(manifest, language)
    files = {name: version.files[name] for name in template_sources(manifest, template)}
    return add_template_header(head, template.suffix, render_template(manifest, template, files))


def repository(slug: str) -> dict[str, bytes]:
    return read_problem_files(ROOT / "problems" / slug)


def bare(slug: str) -> dict[str, bytes]:
    """Return a problem of the repository without its author's templates."""
    files = repository(slug)
    lines = files["task.yml"].decode().splitlines(keepends=True)
    files["task.yml"] = "".join(
        line for line in lines if not line.startswith(("templates:", "  Python:"))
    ).encode()
    return files


def test_the_head_says_what_it_is_for_and_until_when() -> None:
    at = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
    head = TemplateHeader("vectoradd", "Two\nvectors", ["CPU", "H100"], at, ["H100"])
    for language, mark in (("python", "#"), ("cpp", "//"), ("CUDA", "//")):
        text = made(version(repository("vectoradd")), language, head)
        directives = read_directives(text)
        assert (directives.leaderboard, directives.gpus) == ("vectoradd", ("H100",))
        assert text.splitlines()[2:5] == [
            f"{mark} Two vectors",
            f"{mark} Deadline: 2026-12-01 09:30 UTC",
            f"{mark} GPU types: CPU, H100",
        ]


def test_an_authors_template_goes_before_one_that_is_made() -> None:
    templates = starter_templates(json.loads(version(repository("vectoradd")).manifest))
    assert [(template.language, template.file) for template in templates] == [
        ("python", "template.py"),
        ("cpp", ""),
        ("cuda", ""),
    ]
    assert "torch.maximum" in made(version(repository("vectoradd")), "Python")
    with pytest.raises(Refused, match="no template for 'cobol': available are python, cpp, cuda"):
        made(version(repository("vectoradd")), "cobol")


def test_no_comment_of_an_author_becomes_code() -> None:
    for mark in ("\u2028", "\x0c", "\x85", "\x1c"):
        body = f"# one{mark}import os\r\nx = 1\r# two{mark}#!POPCORN gpus B200\n"
        text = add_template_header(TemplateHeader("p", "P", ["CPU"]), ".py", body)
        (line_,) = [line for line in text.split("\n") if "import os" in line]
        assert line_ == f"# one{mark}import os"
        assert "x = 1\n" in text
        assert read_directives(text).gpus == ()


def test_one_that_is_made_takes_its_data_apart_as_the_reference_does() -> None:
    text = made(version(bare("vectoradd")), "python")
    assert "from task import input_t, output_t\n" in text
    assert "def custom_kernel(data: input_t) -> output_t:\n    a, b, output = data\n" in text


def test_a_models_constructor_stays_and_its_forward_is_to_be_written() -> None:
    text = made(version({"one.py": MODEL}), "python")
    classes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    assert list(classes) == ["Inner", "ModelNew"]
    assert "super(ModelNew, self).__init__()\n        self.layer" in text
    assert '        """In two steps."""' not in text
    assert "        # found = self.layer(x)\n        # return self.inner(found)\n" in text
    assert "return x + 1" in text
    assert "get_inputs" not in text
    assert "__main__" not in text


@pytest.mark.parametrize(
    "model",
    [
        b"class Model(nn.Module):\n    def forward(self, x): y = x; return y\n",
        b"class Model(nn.Module):\n    def forward(self,\n        x): return x\n",
        b"class Model(nn.Module):\r\n    def forward(self, x):\r\n        return x\r\n",
        b"Model = nn.ReLU\n",
        b"class Model(nn.ReLU):\n    pass\n",
        b"class Model(nn.Module):\n  def forward(self, x):\n    '''\nodd\n'''\n    return x\n",
    ],
)
def test_whatever_a_model_looks_like_its_start_is_python_that_fails(model: bytes) -> None:
    helpers = b"def get_inputs(): return []\ndef get_init_inputs(): return []\n"
    files = {"one.py": b"#!POPCORN gpus CPU\nimport torch.nn as nn\n" + model + helpers}
    tree = ast.parse(made(version(files), "python"))
    (new,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    forward = next(node for node in new.body if getattr(node, "name", "") == "forward")
    assert new.name == "ModelNew"
    assert isinstance(forward, ast.FunctionDef)
    assert [type(node) for node in forward.body] == [ast.Raise]


def cases() -> dict[str, tuple[dict[str, bytes], str]]:
    """Return every form with its languages."""
    native = {name: text.encode() for name, text in NATIVE.items()}
    versions = {
        "task": (bare("vectoradd"), "python"),
        "single": ({"one.py": SINGLE}, "python"),
        "model": ({"one.py": MODEL}, "python"),
    }
    if shutil.which("g++"):
        viewed = native | {"warpboard.yml": b"arrays: device\n"}
        versions |= {"bound": (bare("vectoradd"), "cpp"), "host": (native, "cuda")}
        versions |= {"viewed": (viewed, "cpp")}
    return versions


@pytest.mark.long
def test_what_is_made_imports_and_fails_the_tests_in_plain_words(warm: Warm) -> None:
    verdicts: dict[str, Any] = {}
    harness = LocalHarness(warm.harness)
    for name, (files, language) in cases().items():
        problem_version = version(files)
        end = find_starter_template(json.loads(problem_version.manifest), language).suffix
        problem = ProblemFiles(
            "p",
            files,
            problem_version.manifest,
            problem_version.files,
            problem_version.ranking_by,
            problem_version.gpus,
        )
        submission = SubmissionRequest(
            f"kernel{end}", made(problem_version, language).encode(), "p", "test"
        )
        run = warm.runner.run(harness.run(problem, submission))
        verdicts[name] = (run["verdict"], run["stage"], run["reason"])
    for name, (verdict, stage, reason) in verdicts.items():
        assert (verdict, stage) == ("crashed", "check"), (name, verdicts[name])
        assert "is still to be written" in reason, (name, reason)
