"""What a submission begins as: where no author wrote it, it imports, and fails cleanly."""

import ast
import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.errors import Refused
from shared.folders import problem_files
from shared.problems import ProblemVersion, compile_problem
from shared.problems.directives import read_directives
from shared.problems.templates import Head, served, sources, start, starts, text
from tests.problems.test_native import FILES as NATIVE
from warpboard.domain.answers import Progress
from warpboard.local_run import LocalHarness
from warpboard.service.ports import ProblemFiles, Terms, Wish

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
HEAD = Head("p", "P", ["CPU", "H100"])


def version(files: Mapping[str, bytes]) -> ProblemVersion:
    return compile_problem("p", files)


def made(version: ProblemVersion, language: str, head: Head = HEAD) -> str:
    manifest = json.loads(version.manifest)
    one = start(manifest, language)
    files = {name: version.files[name] for name in sources(manifest, one)}
    return served(head, one.suffix, text(manifest, one, files))


def repository(slug: str) -> dict[str, bytes]:
    return problem_files(ROOT / "problems" / slug)


def bare(slug: str) -> dict[str, bytes]:
    """A problem of the repository as if its author had written no template."""
    files = repository(slug)
    lines = files["task.yml"].decode().splitlines(keepends=True)
    files["task.yml"] = "".join(
        one for one in lines if not one.startswith(("templates:", "  Python:"))
    ).encode()
    return files


def test_the_head_says_what_it_is_for_and_until_when() -> None:
    at = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
    head = Head("vectoradd", "Two\nvectors", ["CPU", "H100"], at, ["H100"])
    for language, mark in (("python", "#"), ("cpp", "//"), ("CUDA", "//")):
        found = made(version(repository("vectoradd")), language, head)
        said = read_directives(found)
        assert (said.leaderboard, said.gpus) == ("vectoradd", ("H100",))
        assert found.splitlines()[2:5] == [
            f"{mark} Two vectors",
            f"{mark} Deadline: 2026-12-01 09:30 UTC",
            f"{mark} GPU types: CPU, H100",
        ]


def test_an_authors_template_goes_before_one_that_is_made() -> None:
    found = starts(json.loads(version(repository("vectoradd")).manifest))
    assert [(one.language, one.file) for one in found] == [
        ("python", "template.py"),
        ("cpp", ""),
        ("cuda", ""),
    ]
    assert "torch.maximum" in made(version(repository("vectoradd")), "Python")
    with pytest.raises(Refused, match="no start in 'cobol': there is python, cpp, cuda"):
        made(version(repository("vectoradd")), "cobol")


def test_no_comment_of_an_author_becomes_code() -> None:
    for mark in ("\u2028", "\x0c", "\x85", "\x1c"):
        body = f"# one{mark}import os\r\nx = 1\r# two{mark}#!POPCORN gpus B200\n"
        made = served(Head("p", "P", ["CPU"]), ".py", body)
        (kept,) = [line for line in made.split("\n") if "import os" in line]
        assert kept == f"# one{mark}import os"
        assert "x = 1\n" in made
        assert read_directives(made).gpus == ()


def test_one_that_is_made_takes_its_data_apart_as_the_reference_does() -> None:
    found = made(version(bare("vectoradd")), "python")
    assert "from task import input_t, output_t\n" in found
    assert "def custom_kernel(data: input_t) -> output_t:\n    a, b, output = data\n" in found


def test_a_models_constructor_stays_and_its_forward_is_to_be_written() -> None:
    found = made(version({"one.py": MODEL}), "python")
    classes = {one.name: one for one in ast.parse(found).body if isinstance(one, ast.ClassDef)}
    assert list(classes) == ["Inner", "ModelNew"]
    assert "super(ModelNew, self).__init__()\n        self.layer" in found
    assert '        """In two steps."""' not in found
    assert "        # found = self.layer(x)\n        # return self.inner(found)\n" in found
    assert "return x + 1" in found
    assert "get_inputs" not in found
    assert "__main__" not in found


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
    rest = b"def get_inputs(): return []\ndef get_init_inputs(): return []\n"
    files = {"one.py": b"#!POPCORN gpus CPU\nimport torch.nn as nn\n" + model + rest}
    found = ast.parse(made(version(files), "python"))
    (new,) = [one for one in found.body if isinstance(one, ast.ClassDef)]
    forward = next(one for one in new.body if getattr(one, "name", "") == "forward")
    assert new.name == "ModelNew"
    assert isinstance(forward, ast.FunctionDef)
    assert [type(one) for one in forward.body] == [ast.Raise]


def cases() -> dict[str, tuple[dict[str, bytes], str]]:
    """Every form with the languages that it is begun in."""
    native = {name: text.encode() for name, text in NATIVE.items()}
    found = {
        "task": (bare("vectoradd"), "python"),
        "single": ({"one.py": SINGLE}, "python"),
        "model": ({"one.py": MODEL}, "python"),
    }
    if shutil.which("g++"):
        viewed = native | {"warpboard.yml": b"arrays: device\n"}
        found |= {"bound": (bare("vectoradd"), "cpp"), "host": (native, "cuda")}
        found |= {"viewed": (viewed, "cpp")}
    return found


@pytest.mark.box
@pytest.mark.long
async def test_what_is_made_imports_and_fails_the_tests_in_plain_words() -> None:
    said: dict[str, Any] = {}
    async with LocalHarness().warm() as harness:
        for name, (files, language) in cases().items():
            found = version(files)
            end = start(json.loads(found.manifest), language).suffix
            problem = ProblemFiles("p", files, found.manifest, found.files, found.ranking_by)
            wish = Wish(f"kernel{end}", made(found, language).encode(), "p", "test")
            run = await harness.run(problem, wish, _unheard, Terms())
            said[name] = (run["verdict"], run["stage"], run["reason"])
    for name, (verdict, stage, reason) in said.items():
        assert (verdict, stage) == ("crashed", "check"), (name, said[name])
        assert "is still to be written" in reason, (name, reason)


async def _unheard(_: Progress) -> None:
    """Nothing is told."""
