"""Beginning with a problem: the folder that is written, and what it is good for."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from shared.problems.directives import read_directives
from tests.cli.asked import asked, warpboard
from tests.cli.standin import Heard
from tests.cli.tree import PROBLEM

ROOT = Path(__file__).parent.parent.parent
IDENTITY = ROOT / "problems" / "identity"
NAMES = ("reference.py", "task.py", "template.py", "statement.md")
RULES = {
    "cases": {
        "tests": [{"name": "size=64", "args": {"size": 64}}],
        "benchmarks": [{"name": "size=4096", "args": {"size": 4096}}],
    }
}
SAID = PROBLEM | {
    "slug": "identity",
    "files": [{"name": name} for name in (*NAMES, "../escape.py")],
    "gpus": ["CPU", "H100"],
    "rules": RULES,
}


def say(heard: Heard) -> tuple[int, object]:
    """The problem, and its files as they lie in this repository."""
    name = heard.path.rpartition("/")[2]
    return 200, (IDENTITY / name).read_bytes() if "/files/" in heard.path else SAID


def init(folder: Path, *options: str) -> Result:
    return asked(say, "init", "identity", folder, *options)[0]


def test_a_folder_has_a_starter_the_problem_and_a_page_for_programs(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    result = init(folder, "--gpu", "cpu", "--json")
    assert result.exit_code == 0, result.output
    written = sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())
    assert written == sorted(json.loads(result.stdout)["files"])
    read = ("problem/reference.py", "problem/statement.md", "problem/task.py", "problem/task.yml")
    assert written == sorted(["AGENTS.md", "kernel.py", *read])
    said = read_directives((folder / "kernel.py").read_text())
    assert (said.leaderboard, said.gpus) == ("identity", ("CPU",))


def test_the_page_for_programs_says_every_command_and_code(tmp_path: Path) -> None:
    init(tmp_path / "work")
    page = (tmp_path / "work" / "AGENTS.md").read_text()
    assert "$" not in page.replace("$PATH", "")
    for words in ("--mode test", "--mode benchmark", "--mode ranked", "--json", "| 5 |", "quota"):
        assert words in page
    commands = [line.split() for line in page.splitlines() if line.strip().startswith("warpboard")]
    for said in commands:
        assert warpboard(said[1], "--help").exit_code == 0


def test_a_folder_in_which_work_was_done_is_not_overwritten(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("mine\n")
    refused = init(tmp_path)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["kernel.py"]
    assert kernel.read_text() == "mine\n"
    assert init(tmp_path, "--force").exit_code == 0
    assert kernel.read_text() != "mine\n"


@pytest.mark.parametrize("options", [("--gpu", "TPU"), ("--language", "cobol")])
def test_what_a_problem_has_not_is_refused(tmp_path: Path, options: tuple[str, str]) -> None:
    result = init(tmp_path / "work", *options)
    assert result.exit_code == 2
    assert f"[{options[0]}]" in result.stderr
    assert not (tmp_path / "work").exists()


def test_the_folder_runs_here_without_a_server(tmp_path: Path) -> None:
    init(tmp_path / "work")
    work = tmp_path / "work"
    correct = IDENTITY / "solutions" / "correct" / "torch_copy.py"
    result = warpboard("run", correct, "--problem", work / "problem", "--json")
    assert result.exit_code == 0, result.output
    assert [one["name"].split()[0] for one in json.loads(result.stdout)["cases"]] == ["size=64"]


@pytest.mark.long
def test_a_problem_is_checked_by_its_own_solutions(tmp_path: Path) -> None:
    init(tmp_path / "work")
    folder = tmp_path / "work" / "problem"
    for kind, name in (
        ("correct", "torch_copy"),
        ("correct", "triton_blocks"),
        ("wrong", "unwritten"),
    ):
        (folder / "solutions" / kind).mkdir(parents=True, exist_ok=True)
        text = (IDENTITY / "solutions" / kind / f"{name}.py").read_text()
        (folder / "solutions" / kind / f"{name}.py").write_text(text)
    good = warpboard("problem", "check", folder)
    assert good.exit_code == 0, good.output
    assert "1 of 1 correct passed, 1 of 1 wrong found, 1 not shown here" in good.stdout
    assert "needs a GPU: H100" in good.stdout
    (folder / "solutions" / "wrong" / "right.py").write_text(
        (IDENTITY / "solutions" / "correct" / "torch_copy.py").read_text()
    )
    (folder / "solutions" / "wrong" / "never_ran.py").write_text("import nothing_of_this_name\n")
    bad = warpboard("problem", "check", folder, "--json")
    assert bad.exit_code == 1
    found = {one["file"]: one["is_expected"] for one in json.loads(bad.stdout)["solutions"]}
    assert [name for name in sorted(found) if found[name]] == ["torch_copy.py", "unwritten.py"]
    assert sorted(found.keys() - {"torch_copy.py", "unwritten.py"}) == [
        "never_ran.py",
        "right.py",
        "triton_blocks.py",
    ]


MODEL = b"""\
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(8)]
def get_init_inputs():
    return []
"""


def test_a_model_begins_as_itself_and_runs_here(tmp_path: Path) -> None:
    said = SAID | {"files": [{"name": "reference.py"}], "templates": {}, "languages": ["python"]}

    def say_model(heard: Heard) -> tuple[int, object]:
        return 200, MODEL if "/files/" in heard.path else said

    folder = tmp_path / "work"
    result = asked(say_model, "init", "identity", folder, "--gpu", "CPU")[0]
    assert result.exit_code == 0, result.output
    assert "class ModelNew(" in (folder / "kernel.py").read_text()
    assert not (folder / "problem" / "task.yml").exists()
    run = warpboard("run", folder / "kernel.py", "--problem", folder / "problem")
    assert run.exit_code == 0, run.output
