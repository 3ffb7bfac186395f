"""Beginning with a problem: the folder that is written, and what it is good for."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import Result

from ranker.http import problems
from ranker.http.problems import describe_rules
from shared.agent_guide import render_agent_guide
from shared.api.agents import Agents
from shared.problem_folders import read_problem_files
from shared.problem_versions import load_problem
from shared.problems import templates
from shared.problems.compilation import ProblemVersion, compile_problem
from shared.problems.submission_file import read_directives
from tests.cli.command_runner import run_against, run_warpboard
from tests.cli.stand_in import ReceivedRequest, Respond
from tests.problems.test_native import FILES as NATIVE
from tests.problems.test_popcorn import own
from tests.problems.test_templates import MODEL, SINGLE
from tests.support.api_examples import make_document

pytestmark = [pytest.mark.platform, pytest.mark.long]

ROOT = Path(__file__).parent.parent.parent
IDENTITY = ROOT / "problems" / "identity"
NEWER = SINGLE.replace(b"input()", b"input(seed: int)").replace(b"(got, want)", b"(data, got)")


def ours(slug: str) -> ProblemVersion:
    """A problem of this repository."""
    return compile_problem(slug, read_problem_files(ROOT / "problems" / slug))


def native(extras: bytes = b"") -> ProblemVersion:
    """A problem in C++."""
    files = {name: text.encode() for name, text in NATIVE.items()}
    return compile_problem("adding", files | {"warpboard.yml": extras})


def serving(version: ProblemVersion, *offered: str) -> Respond:
    """What ranker says of a problem and its files, and of live agents of these GPU types."""
    manifest = json.loads(version.manifest)
    row = {
        "slug": version.slug,
        "problem_version": 1,
        "title": version.title,
        "gpus": list(version.gpus),
        "languages": list(version.languages),
        "ranking_by": version.ranking_by,
        "budgets_s": dict(version.budgets_s),
        "deadline_at": None,
        "source_visible": version.source_visible,
        "publish": version.publish,
    }
    answer: dict[str, Any] = row | describe_rules(row, manifest) | {"statement": ""}
    answer["files"] = [*answer["files"], {"name": "../escape.py"}]

    def say(heard: ReceivedRequest) -> tuple[int, object]:
        url = urlsplit(heard.path)
        kind, name = url.path.split("/")[-2:]
        if name == "agents":
            agents = [{"gpu": gpu, "is_alive": True} for gpu in offered]
            agents.append({"gpu": version.gpus[-1], "is_alive": False})
            return 200, make_document(Agents, {"items": agents})
        if kind == "files":
            return 200, version.files[name]
        if kind == "templates":
            gpus = parse_qs(url.query).get("gpu", [])
            starter = templates.find_starter_template(manifest, name)
            return 200, problems.render_start(row, manifest, starter, version.files, gpus)
        return 200, answer

    return say


def init(folder: Path, *options: str) -> Result:
    return run_against(serving(ours("identity")), "init", "identity", folder, *options)[0]


@pytest.mark.feature("P2")
def test_a_folder_has_a_starter_the_problem_and_a_page_for_programs(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    result = init(folder, "--gpu", "cpu", "--json")
    assert result.exit_code == 0, result.output
    written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert written == sorted(json.loads(result.stdout)["files"])
    read = ("reference.py", "statement.md", "task.py", "task.yml", "warpboard.yml")
    assert written == sorted(["AGENTS.md", "kernel.py", *(f"problem/{item}" for item in read)])
    directives = read_directives((folder / "kernel.py").read_text())
    assert (directives.leaderboard, directives.gpus) == ("identity", ("CPU",))
    mine = compile_problem("identity", read_problem_files(folder / "problem"))
    assert [work.bytes for work in mine.works] == [33_554_432.0]


def test_the_starter_names_the_gpu_types_that_have_agents(tmp_path: Path) -> None:
    version = ours("identity")
    for offered, named in ((("CPU", "GB300"), ("CPU",)), ((), version.gpus)):
        folder = tmp_path / "".join(offered)
        run_against(serving(version, *offered), "init", "identity", folder, "--force")
        assert read_directives((folder / "kernel.py").read_text()).gpus == tuple(named)


@pytest.mark.feature("P26")
def test_the_page_for_programs_says_every_command_and_code(tmp_path: Path) -> None:
    init(tmp_path / "work", "--gpu", "CPU")
    page = (tmp_path / "work" / "AGENTS.md").read_text()
    assert "$" not in page.replace("$WARPBOARD_TOKEN", "")
    url = re.search(r"^Platform: (\S+)", page, re.MULTILINE)
    assert url is not None
    named = {"slug": "identity", "kernel": "kernel.py", "gpu": "CPU"}
    assert page.endswith(render_agent_guide(url[1], **named))  # as /llms.txt has it
    for words in ("--mode test", "--mode benchmark", "--mode ranked", "--json", "| 5 |", "quota"):
        assert words in page
    commands = [line.split() for line in page.splitlines() if line.strip().startswith("warpboard")]
    for text in commands:
        assert run_warpboard(text[1], "--help").exit_code == 0


def test_a_folder_in_which_work_was_done_is_not_overwritten(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("mine\n")
    refused = init(tmp_path)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kernel.py"]
    assert kernel.read_text() == "mine\n"
    assert init(tmp_path, "--force").exit_code == 0
    assert kernel.read_text() != "mine\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gpu", "TPU"), "identity has no GPU type 'TPU': CPU, "),
        (("--language", "cobol"), "no file to begin with in 'cobol': python, "),
    ],
)
def test_what_a_problem_has_not_is_refused(
    tmp_path: Path, options: tuple[str, str], words: str
) -> None:
    result = init(tmp_path / "work", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (tmp_path / "work").exists()


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
    good = run_warpboard("problem", "check", folder)
    assert good.exit_code == 0, good.output
    assert "1 of 1 correct passed, 1 of 1 wrong found, 1 not shown here" in good.stdout
    assert "needs a GPU: H100" in good.stdout


FORMS: Mapping[str, tuple[Callable[[], ProblemVersion], str]] = {
    "task": (lambda: ours("vectoradd"), "kernel.py"),
    "older": (lambda: compile_problem("p", {"reference_code.py": SINGLE}), "kernel.py"),
    "newer": (lambda: compile_problem("p", {"reference_code.py": NEWER}), "kernel.py"),
    "model": (lambda: compile_problem("p", {"9_Add.py": MODEL}), "kernel.py"),
    "program": (own, "kernel.py"),
    "native": (native, "kernel.cpp"),
    "viewed": (lambda: native(b"arrays: device\nlimits: {memory_mib: 4096}\n"), "kernel.cpp"),
}
SAME = (
    *("form", "calls", "native", "main", "lang", "submission", "ranking_by", "languages"),
    *("answers", "memory_mib", "multi_gpu", "budgets_s", "title"),
)


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_of_every_form_compiles_to_the_same_problem(form: str, tmp_path: Path) -> None:
    version, kernel = FORMS[form][0](), FORMS[form][1]
    result = run_against(serving(version), "init", version.slug, tmp_path / "work")[0]
    assert result.exit_code == 0, result.output
    mark = "#" if kernel.endswith(".py") else "//"
    assert (tmp_path / "work" / kernel).read_text().startswith(f"{mark}!POPCORN leaderboard ")
    compiled = load_problem(tmp_path / "work" / "problem", version.slug)
    here, there = json.loads(compiled.manifest), json.loads(version.manifest)
    assert {key: here.get(key) for key in SAME} == {key: there.get(key) for key in SAME}
    own = {item for item in there["files"] if item not in there["templates"].values()}
    assert {item: here["files"].get(item) for item in own} == {
        item: there["files"][item] for item in own
    }
    for key in ("tests", "benchmarks"):
        assert [sorted(item["args"]) for item in here[key]] == [
            sorted(item["args"]) for item in there[key]
        ]


@pytest.mark.feature("N4")
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_a_problem_in_cpp_is_begun_and_run_here(tmp_path: Path) -> None:
    result = run_against(
        serving(native()), "init", "adding", tmp_path, "--language", "C++", "--gpu", "cpu"
    )[0]
    assert result.exit_code == 0, result.output
    kernel = tmp_path / "kernel.cpp"
    head = kernel.read_text().partition("#include")[0]
    kernel.write_text(head + NATIVE["solutions/correct/add.cu"])
    run = run_warpboard("run", kernel, "--problem", tmp_path / "problem", "--json")
    assert run.exit_code == 0, run.output
    assert {case["verdict"] for case in json.loads(run.stdout)["cases"]} == {"passed"}
