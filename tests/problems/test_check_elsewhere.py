"""`problem check` of problems for GPUs only, on a machine without one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from shared.problems.report import CheckReport
from tests.cli.command_runner import run_against, run_warpboard
from tests.cli.stand_in import respond_in_turn
from tests.problems.inspection import FILES, REFERENCE, RIGHT, TASK, TEMPLATE, write

pytestmark = [pytest.mark.box, pytest.mark.long]

ELSEWHERE = {**FILES, "task.yml": TASK.replace('["CPU"]', '["H100"]')}
ON_CUDA = RIGHT.replace("x, output = data", "x, output = (one.to('cuda') for one in data)")
NO_MODULE = "import nothing_of_this_name\n"
PROBLEMS: Mapping[str, Mapping[str, str]] = {
    "shown": ELSEWHERE,
    "unshown": {
        **ELSEWHERE,
        "solutions/correct/cuda.py": ON_CUDA,
        "solutions/wrong/never.py": NO_MODULE,
        "template.py": NO_MODULE + TEMPLATE,
    },
    "uninspected": {**ELSEWHERE, "reference.py": NO_MODULE + REFERENCE},
    "mistaken": {**ELSEWHERE, "reference.py": REFERENCE.replace("data[0])", "date[0])")},
    "loose": {**ELSEWHERE, "solutions/wrong/right.py": RIGHT},
    "large": {
        **ELSEWHERE,
        "reference.py": REFERENCE.replace("    x, o", "    torch.empty(1 << 46)\n    x, o"),
    },
    "here": {
        **FILES,
        "reference.py": REFERENCE.replace("    x, o", "    torch.empty(1 << 46)\n    x, o"),
    },
}


@dataclass(frozen=True)
class Checked:
    """The results of one command that checked all problems."""

    result: Result
    said: dict[str, Any]
    trials: list[dict[str, Any]]

    def levels(self, slug: str) -> dict[str, str]:
        """Return the findings of a problem with their levels."""
        return {finding["code"]: finding["level"] for finding in self.said[slug]["findings"]}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    folder = tmp_path_factory.mktemp("problems")
    paths = [write(folder / slug, files) for slug, files in PROBLEMS.items()]
    result = run_warpboard(
        "problem", "check", *paths, "--json", XDG_CACHE_HOME=str(folder / "cache")
    )
    document = json.loads(result.stdout)
    said = {Path(problem["path"]).name: problem for problem in document["problems"]}
    return Checked(result, said, document["solutions"])


def test_what_runs_on_the_processor_is_checked_there(checked: Checked) -> None:
    assert checked.said["shown"]["is_good"]
    assert checked.levels("shown") == {"untested": "warning"}
    assert checked.said["shown"]["tested_gpus"] == []
    verdicts = [solution["verdict"] for solution in checked.said["shown"]["solutions"]]
    assert verdicts == ["passed", "wrong_answer"]


def test_what_may_want_a_gpu_is_not_shown_and_no_error(checked: Checked) -> None:
    result = checked.said["unshown"]
    assert result["is_good"], result
    assert [(solution["name"], solution["verdict"]) for solution in result["solutions"]] == [
        ("cuda.py", "skipped"),
        ("right.py", "passed"),
        ("half.py", "wrong_answer"),
        ("never.py", "skipped"),
    ]
    assert checked.levels("unshown") == {"not_inspected": "warning", "untested": "warning"}
    trials = [trial for trial in checked.trials if trial["problem"] == "unshown"]
    not_shown = [trial for trial in trials if not trial["is_shown"]]
    assert [trial["file"] for trial in not_shown] == ["cuda.py", "never.py"]
    assert all("the problem is for H100" in trial["reason"] for trial in not_shown)


def test_own_code_that_may_want_a_gpu_is_a_warning(checked: Checked) -> None:
    assert checked.said["uninspected"]["is_good"]
    assert checked.levels("uninspected") == {"not_inspected": "warning", "untested": "warning"}
    (finding, _) = checked.said["uninspected"]["findings"]
    assert "nothing_of_this_name" in finding["text"]


@pytest.mark.parametrize(
    ("slug", "code"), [("mistaken", "author_fails"), ("loose", "wrong_passes")]
)
def test_what_no_gpu_would_mend_is_an_error(checked: Checked, slug: str, code: str) -> None:
    assert checked.levels(slug) == {code: "error"}
    assert not checked.said[slug]["is_good"]
    assert checked.result.exit_code == 1


def test_the_memory_of_this_machine_is_an_error_where_the_problem_is_for_it(
    checked: Checked,
) -> None:
    assert checked.levels("large")["author_memory"] == "warning"
    assert checked.said["large"]["is_good"]
    assert checked.levels("here")["author_memory"] == "error"
    texts = [finding["text"] for finding in checked.said["here"]["findings"]]
    assert "ref_kernel on size=4 seed=7 needs 262144 GiB more memory" in texts[0]


def test_the_report_says_how_much_memory_a_run_needs(checked: Checked) -> None:
    names = set(CheckReport.model_fields)
    report = {name: value for name, value in checked.said["shown"].items() if name in names}
    assert CheckReport.model_validate_json(json.dumps(report)).memory_mib == 1


def test_the_types_that_will_be_published_are_judged(tmp_path: Path) -> None:
    task = "\n".join(line for line in TASK.splitlines() if not line.startswith("gpus"))
    files = {**FILES, "task.yml": f"{task}\n", "reference.py": NO_MODULE + REFERENCE}
    write(tmp_path / "set" / "far", files)
    entry = "{directory: far, name: far, deadline: '2099-01-01', gpus: [H100]}"
    (tmp_path / "set" / "contest.yaml").write_text(f"name: Far\nproblems:\n  - {entry}\n")
    command = ("problem", "publish", tmp_path / "set" / "far")
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "WARPBOARD_TOKEN": "a-token"}
    published = respond_in_turn((201, {"slug": "far", "problem_version": 1, "is_new": True}))
    # Its own code fails on CPU, where every submission would end as infra_failed.
    result, requests = run_against(published, *command, "--gpu", "CPU", **environ)
    assert result.exit_code == 2, result.output
    assert "error author_fails" in result.stderr
    assert requests == []
    # On H100 that proves nothing, so the platform is asked, with the flag of its author.
    result, requests = run_against(published, *command, "--allow-untested", **environ)
    assert "warning untested" in result.stderr
    assert "it was not run on H100" in result.stderr
    assert b'name="allow_untested"\r\n\r\ntrue' in requests[-1].body
