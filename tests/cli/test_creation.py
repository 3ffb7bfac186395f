"""`problem create`: an agent checks one file, then it is published; every end says what to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.command_runner import run_against
from tests.cli.stand_in import ReceivedRequest

REFERENCE = """\
def generate_input(size: int = 4, seed: int = 0):
    return [seed] * size


def ref_kernel(data):
    return data


def check_implementation(user_output, reference_output) -> bool:
    return user_output == reference_output
"""
CHECK = {"id": "c1", "slug": "sums", "gpu": "H100", "gpus": ["H100"]}
STEP = {"text": "file 1 of 2: reference.py", "done": 0, "total": 2}
RUNNING = CHECK | {"state": "running", "text": "checking", "progress": STEP}
CLEAN = CHECK | {
    "state": "clean",
    "text": "checked on H100: sums can be published",
    "tested_gpus": ["H100"],
}
FINDING = {"code": "check_takes_zeros", "level": "error", "where": "tests: n=1", "text": "no\nx: 1"}
REFUSED = CHECK | {"state": "refused", "text": "the check found 1 error", "findings": [FINDING]}
FAILED = CHECK | {"state": "failed", "text": "its agent died. Send it again"}
AGENTS = {
    "items": [
        {"id": "a", "gpu": "H100", "is_alive": True, "is_enrolled": True},
        {"id": "b", "gpu": "A100", "is_alive": True, "is_enrolled": False},
        {"id": "c", "gpu": "B200", "is_alive": False, "is_enrolled": True},
    ]
}


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    file = tmp_path / "reference.py"
    file.write_text(REFERENCE)
    return file


def create(
    reference: Path, check: Any, *options: str, agents: Any = AGENTS, is_slow: bool = False
) -> tuple[Result, list[ReceivedRequest]]:
    """Create the problem `sums`; its check is over at once, or at first it is running."""
    first = RUNNING if is_slow else check

    def say(heard: ReceivedRequest) -> tuple[int, Any]:
        answers = {
            "GET /v1/agents": (200, agents),
            "POST /v1/checks": (202, first),
            "GET /v1/checks/c1": (200, check),
            "POST /v1/checks/c1/publish": (
                201,
                {"slug": "sums", "problem_version": 1, "is_new": True},
            ),
        }
        return answers[f"{heard.method} {heard.path}"]

    return run_against(say, "problem", "create", "sums", str(reference), *options)


def paths(heard: list[ReceivedRequest]) -> list[str]:
    return [request.path.removeprefix("/v1/") for request in heard]


def test_one_file_is_checked_on_the_types_with_agents_and_published(reference: Path) -> None:
    options = ("--yes", "--deadline", "2100-01-01", "--visibility", "closed")
    result, heard = create(reference, CLEAN, *options, is_slow=True)
    assert (result.exit_code, result.stdout) == (0, "sums version 1 published\n")
    assert "sums: checking on H100: file 1 of 2: reference.py" in result.stderr
    assert "on H100, until 2100-01-01 00:00 UTC; 1 test, 1 benchmark" in result.stderr
    assert paths(heard) == ["agents", "checks", "checks/c1", "checks/c1/publish"]
    assert heard[1].body.count(b'name="gpu"') == 1
    assert b"H100" in heard[1].body
    assert REFERENCE.encode() in heard[1].body
    assert json.loads(heard[3].body) == {
        "deadline": "2100-01-01T00:00:00+00:00",
        "visibility": "closed",
        "force": False,
        "allow_untested": False,
    }


def test_without_a_terminal_only_yes_publishes(reference: Path) -> None:
    result, heard = create(reference, CLEAN, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["check"]["state"], document["published"]) == ("clean", None)
    assert "nothing was published; the same command with --yes" in result.stderr
    assert "checks/c1/publish" not in paths(heard)


def test_findings_keep_the_breaks_of_their_lines(reference: Path) -> None:
    result, heard = create(reference, REFUSED, "--yes")
    assert (result.exit_code, result.stdout) == (1, "the check found 1 error\n")
    line = f"error check_takes_zeros in {reference}, tests: n=1: no\n    x: 1\n"
    assert line in result.stderr
    assert "checks/c1/publish" not in paths(heard)


def test_a_check_that_an_agent_lost_is_a_failure_of_the_platform(reference: Path) -> None:
    result, _ = create(reference, FAILED, "--yes")
    assert (result.exit_code, result.stdout) == (3, "its agent died. Send it again\n")


def test_types_without_an_agent_are_named_by_the_author(reference: Path) -> None:
    result, _ = create(reference, CLEAN, "--yes", agents={"items": []})
    assert result.exit_code == 2
    assert "no GPU type has an agent now: name those of the leaderboards by --gpu" in result.stderr
    check = CLEAN | {"gpus": ["B200", "H100"]}
    gpus = ("--gpu", "B200", "--gpu", "H100")
    result, heard = create(reference, check, "--yes", *gpus, agents={"items": []})
    assert result.exit_code == 0
    assert heard[1].body.count(b'name="gpu"') == 2
    assert "this problem was not run on B200 before it was published" in result.stderr


def write_broken(file: Path) -> Path:
    file.write_text(REFERENCE.replace("return data\n", "return (\n", 1))
    return file


def write_sizes(file: Path) -> Path:
    file.write_text(REFERENCE.replace("size: int = 4, seed: int = 0", "size, seed"))
    return file


def write_text(file: Path) -> Path:
    return file.rename(file.with_suffix(".txt"))


@pytest.mark.parametrize(
    ("prepare", "options", "message"),
    [
        (write_broken, (), "warpboard: reference.py, line "),
        (write_sizes, (), "    tests:\n      - {size: 1024, seed: 42}\n"),
        (write_text, (), "FILE: {file} is neither: send one reference (.py, .cu, .cuh, .cpp)"),
        (Path.absolute, ("--deadline", "soon"), "Invalid value for '--deadline': 'soon'"),
        (Path.absolute, ("--deadline", "2020-01-01"), "2020-01-01 00:00 UTC is over: name one"),
        (Path.absolute, ("--gpu", "H 100"), "Invalid value for '--gpu': 'H 100' is not a GPU type"),
    ],
)
def test_a_wrong_input_is_refused_before_anything_is_sent(
    reference: Path, prepare: Callable[[Path], Path], options: tuple[str, ...], message: str
) -> None:
    file = prepare(reference)
    result, heard = create(file, CLEAN, "--yes", *options)
    assert result.exit_code == 2
    assert message.replace("{file}", str(file)) in result.stderr
    assert set(paths(heard)) <= {"agents"}


def test_a_description_becomes_the_statement(reference: Path) -> None:
    result, heard = create(reference, CLEAN, "--yes", "--description", "Copy *it*.")
    assert result.exit_code == 0
    assert b'filename="statement.md"' in heard[1].body
    assert b"Copy *it*.\n" in heard[1].body


def test_a_name_is_corrected(reference: Path) -> None:
    def say(heard: ReceivedRequest) -> tuple[int, Any]:
        raise AssertionError(heard)

    result, _ = run_against(say, "problem", "create", "Fast Sums", str(reference))
    assert result.exit_code == 2
    assert "'Fast Sums' names no problem" in result.stderr
    assert "fast-sums would do" in result.stderr
