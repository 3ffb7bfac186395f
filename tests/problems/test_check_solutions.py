"""`problem check` of solutions and templates, and what `problem publish` does with it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from shared.problems.report import read_report
from tests.cli.command_runner import run_against, run_warpboard
from tests.cli.stand_in import ReceivedRequest, respond_in_turn
from tests.problems.inspection import FILES, RIGHT, TASK, TEMPLATE, write

pytestmark = [pytest.mark.box, pytest.mark.long]

# Right on what is tested, wrong on what is timed.
SMALL = RIGHT.replace("+ x)", "+ x).mul_(len(x) < 32)")
SLOW = RIGHT.replace("    ", "    import time; time.sleep(0.11)\n    ", 1)
BASELINES = "baselines: [{name: eager, file: baselines/eager.py}]\n"
HEAD = "#!POPCORN leaderboard right\n"
SPOILT: Mapping[str, Mapping[str, str]] = {
    "right": {**FILES, "warpboard.yml": BASELINES, "baselines/eager.py": HEAD + RIGHT},
    "spoilt": {
        **FILES,
        "warpboard.yml": BASELINES,
        "baselines/eager.py": SMALL,
        "template.py": "import nothing_of_this_name\n",
        "solutions/correct/small.py": SMALL,
        "solutions/wrong/right.py": RIGHT,
        "solutions/wrong/never.py": "import nothing_of_this_name\n",
    },
    "bare": {name: FILES[name] for name in ("task.yml", "reference.py")}
    | {"template.py": TEMPLATE.replace("return data[1]", "return data[1].copy_(data[0])")},
    "several": {
        **FILES,
        "warpboard.yml": "limits: {files: 3}\n",
        "solutions/correct/parts/kernel.py": "from lib.own import custom_kernel\n",
        "solutions/correct/parts/lib/own.py": RIGHT,
        "solutions/wrong/parts/submission.py": "from lib.own import custom_kernel\n",
        "solutions/wrong/parts/lib/own.py": SMALL,
        "solutions/wrong/README.md": "not a solution",
    },
    "crowded": {
        **FILES,
        "solutions/correct/parts/kernel.py": "from own import custom_kernel\n",
        "solutions/correct/parts/own.py": RIGHT,
    },
    "broken": {**FILES, "task.yml": TASK.replace("benchmarks:", "benchmark:")},
    "slow": {**FILES, "warpboard.yml": "yardstick: slow.py\n", "slow.py": SLOW},
    "lame": {**FILES, "warpboard.yml": "yardstick: small.py\n", "small.py": SMALL},
}
TOKEN = "operator-token-of-a-test"
PUBLISHED = {"slug": "right", "problem_version": 1, "is_new": True}


@dataclass(frozen=True)
class Checked:
    """Folders checked by one command, with the result of each."""

    folder: Path
    result: Result
    said: dict[str, Any]

    def codes(self, slug: str) -> dict[str, str]:
        """Return the findings of a problem with their places."""
        return {finding["code"]: finding["where"] for finding in self.said[slug]["findings"]}

    def publish(self, slug: str, *options: str) -> tuple[Result, list[ReceivedRequest]]:
        """Publish a problem, and return the result and the platform's requests."""
        command = ("problem", "publish", self.folder / slug, *options)
        environ = {**self.environ, "WARPBOARD_OPERATOR_TOKEN": TOKEN}
        return run_against(respond_in_turn((201, PUBLISHED)), *command, **environ)

    @property
    def environ(self) -> dict[str, str]:
        """The environment, which names the folder of reports."""
        return {"XDG_CACHE_HOME": str(self.folder / "cache")}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    folder = tmp_path_factory.mktemp("problems")
    paths = [write(folder / slug, files) for slug, files in SPOILT.items()]
    environ = {"XDG_CACHE_HOME": str(folder / "cache")}
    result = run_warpboard("problem", "check", *paths, "--json", **environ)
    found = {Path(one["path"]).name: one for one in json.loads(result.stdout)["problems"]}
    return Checked(folder, result, found)


def test_a_yardstick_that_fails_is_an_error(checked: Checked) -> None:
    (finding,) = checked.said["lame"]["findings"]
    assert (finding["code"], finding["level"]) == ("yardstick_fails", "error")
    assert "the yardstick failed (wrong_answer) on size" in finding["text"]
    assert not checked.said["lame"]["is_clean"]


def test_a_slow_yardstick_is_a_warning(checked: Checked) -> None:
    (finding,) = checked.said["slow"]["findings"]
    assert (finding["code"], finding["level"]) == ("yardstick_slow", "warning")
    assert "name a faster solution as `yardstick` in warpboard.yml" in finding["text"]
    assert checked.said["slow"]["is_clean"]


@pytest.mark.feature("C5")
def test_a_right_problem_is_clean_and_its_solutions_end_as_they_must(checked: Checked) -> None:
    result = checked.said["right"]
    assert result["findings"] == []
    assert result["is_clean"]
    assert [(solution["name"], solution["verdict"]) for solution in result["solutions"]] == [
        ("right.py", "passed"),
        ("half.py", "wrong_answer"),
        ("baselines/eager.py", "passed"),
    ]
    assert result["solutions"][-1]["kind"] == "baseline"


@pytest.mark.feature("C5", "N7")
def test_a_folder_is_a_solution_of_several_files(checked: Checked) -> None:
    result = checked.said["several"]
    assert result["findings"] == []
    assert [(solution["name"], solution["verdict"]) for solution in result["solutions"]] == [
        ("right.py", "passed"),
        ("parts/kernel.py", "passed"),
        ("half.py", "wrong_answer"),
        ("parts/submission.py", "wrong_answer"),
    ]
    (finding,) = checked.said["crowded"]["findings"]
    assert (finding["code"], finding["where"]) == (
        "solution_files",
        "solutions/correct/parts/kernel.py",
    )
    assert "2 files; this problem takes one file" in finding["text"]


@pytest.mark.feature("C5")
def test_each_solution_that_ends_otherwise_is_named(checked: Checked) -> None:
    assert checked.result.exit_code == 1
    assert checked.codes("spoilt") == {
        "correct_fails": "solutions/correct/small.py",
        "baseline_fails": "baselines/eager.py",
        "wrong_passes": "solutions/wrong/right.py",
        "wrong_never_ran": "solutions/wrong/never.py",
        "template_fails": "template.py",
    }


def test_what_is_wrong_in_timed_cases_alone_is_found(checked: Checked) -> None:
    (failure,) = (
        finding
        for finding in checked.said["spoilt"]["findings"]
        if finding["code"] == "correct_fails"
    )
    assert "timed_check failed (wrong_answer) on size=32" in failure["text"]


def test_a_problem_without_solutions_says_so(checked: Checked) -> None:
    levels = {finding["code"]: finding["level"] for finding in checked.said["bare"]["findings"]}
    assert levels == {"no_correct": "error", "no_wrong": "warning"}


def test_files_that_are_no_problem_are_told_by_line_and_spoil_no_other(checked: Checked) -> None:
    (finding,) = checked.said["broken"]["findings"]
    assert (finding["code"], finding["level"]) == ("schema", "error")
    assert finding["where"] == "task.yml, line 11"
    assert finding["text"].startswith("unknown key 'benchmark'")


def test_what_was_checked_is_published_with_that_report(checked: Checked) -> None:
    result, heard = checked.publish("right")
    assert result.exit_code == 0, result.output
    (request,) = heard
    text = request.body.partition(b'name="report"\r\n\r\n')[2].partition(b"\r\n")[0]
    assert read_report(text).made_at.isoformat() == checked.said["right"]["made_at"].replace(
        "Z", "+00:00"
    )


def test_what_has_an_error_is_not_published(checked: Checked) -> None:
    result, heard = checked.publish("bare")
    assert (result.exit_code, heard) == (2, [])
    assert "error no_correct in" in result.stderr
    assert "nothing was published" in result.stderr


def test_an_operator_publishes_without_a_check_and_says_why(checked: Checked) -> None:
    result, heard = checked.publish("spoilt", "--unchecked", "the check is not ready")
    assert result.exit_code == 0, result.output
    (request,) = heard
    assert b'name="unchecked"\r\n\r\nthe check is not ready' in request.body
    assert b'name="report"' not in request.body
