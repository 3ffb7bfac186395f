"""What authors say of a leaderboard, when it is made and later, and how it is shown."""

import json
import re
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from shared.api.leaderboards import LeaderboardSettings
from shared.problems.compilation import compile_problem
from shared.problems.warpboard_yml import PublishSettings, apply_settings
from tests.cli.command_cases import SETTINGS
from tests.cli.command_runner import run_against
from tests.cli.stand_in import ReceivedRequest
from tests.support.api_examples import make_example
from tests.support.door import FILES
from warpboard.terminal.problems import settings_lines

MADE = {"event": "LeaderboardChanged", "seq": 7}
TOKENS = {"WARPBOARD_OPERATOR_TOKEN": "t", "WARPBOARD_TOKEN": "t"}
WARNED = {"slug": "copy", "problem_version": 1, "is_new": True, "warnings": ["mind the gap"]}
ADMIN, AUTHOR = ("admin", "leaderboard", "edit"), ("leaderboard", "edit")


def fields(heard: ReceivedRequest) -> dict[str, list[str]]:
    """The fields of a form that are no files."""
    form: dict[str, list[str]] = {}
    pattern = rb'name="(\w+)"\r\n\r\n(.*?)\r\n--'
    for name, value in re.findall(pattern, heard.body, re.DOTALL):
        form.setdefault(name.decode(), []).append(value.decode())
    return form


@pytest.mark.parametrize("words", [ADMIN, AUTHOR])
def test_a_leaderboard_is_changed_by_what_is_said_alone(words: tuple[str, ...]) -> None:
    arguments = ("m", "--gpu", "H100", "--gpu", "B200", "--quota", "ranked=10/day", "--force")
    result, (heard,) = run_against(
        lambda _: (200, MADE), *words, *arguments, "--reason", "r", **TOKENS
    )
    assert result.exit_code == 0, result.output
    assert (heard.method, heard.path) == ("PUT", "/v1/admin/leaderboards/m")
    assert json.loads(heard.body) == {
        "gpus": ["H100", "B200"],
        "quotas": ["ranked=10/day"],
        "force": True,
        "reason": "r",
    }
    result, heard_too = run_against(lambda _: (200, MADE), *words, "m", "--reason", "r", **TOKENS)
    assert (result.exit_code, heard_too) == (2, [])


@pytest.mark.parametrize(
    ("said", "sent", "aside"),
    [
        ("2026-12-01", "2026-12-01T00:00:00+00:00", "names no zone, so it is 2026-12-01 00:00 UTC"),
        ("2026-12-01 9:30", "2026-12-01T09:30:00+00:00", "so it is 2026-12-01 09:30 UTC"),
        (
            "2026-12-01T09:30:00+02:00",
            "2026-12-01T07:30:00+00:00",
            "deadline: 2026-12-01 07:30 UTC",
        ),
        ("none", None, ""),
    ],
)
def test_a_deadline_is_utc_and_printed(said: str, sent: str | None, aside: str) -> None:
    words = (*AUTHOR, "m", "--deadline", said, "--reason", "r")
    result, (heard,) = run_against(lambda _: (200, MADE), *words, **TOKENS)
    assert json.loads(heard.body)["deadline_at"] == sent
    assert aside in result.stderr


def test_what_is_no_deadline_is_refused_with_the_form() -> None:
    words = (*AUTHOR, "m", "--deadline", "tomorrow", "--reason", "r")
    result, heard = run_against(lambda _: (200, MADE), *words, **TOKENS)
    assert (result.exit_code, heard) == (2, [])
    assert "2026-12-01 18:00 in UTC" in result.stderr


def test_gpu_types_are_said_one_by_one() -> None:
    words = (*AUTHOR, "m", "--gpu", "H100,B200", "--reason", "r")
    result, heard = run_against(lambda _: (200, MADE), *words, **TOKENS)
    assert (result.exit_code, heard) == (2, [])
    assert "'H100,B200' is not a GPU type" in result.stderr
    assert "--gpu H100 --gpu B200" in result.stderr


def publishing_again(heard: ReceivedRequest) -> tuple[int, Any]:
    """A platform on which the second version of a problem is published."""
    if heard.path.startswith("/v1/leaderboards"):
        lines = [
            {"problem_version": 1, "entries_count": 2},
            {"problem_version": 1, "entries_count": 3},
        ]
        return 200, {"items": lines}
    if heard.path == "/v1/admin/rejudges":
        return 201, {"id": "r7", "count": 5, "from_version": 1, "to_version": 2}
    return 201, WARNED | {"problem_version": 2}


def test_publishing_a_version_offers_a_rejudge_or_starts_it(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    words = ("problem", "publish", folder, "--unchecked", "r")
    result, _ = run_against(publishing_again, *words, **TOKENS)
    assert result.exit_code == 0, result.output
    assert "5 entries of version 1 can run again: warpboard problem rejudge start copy" in (
        result.stdout
    )
    result, heard = run_against(publishing_again, *words, "--rejudge", **TOKENS)
    assert result.exit_code == 0, result.output
    assert "rejudge r7: 5 to run again under version 2" in result.stdout
    (sent,) = [request for request in heard if request.path == "/v1/admin/rejudges"]
    result, _ = run_against(lambda _: (201, WARNED), *words, "--rejudge", **TOKENS)
    assert "nothing stood under the version before" in result.stdout
    assert json.loads(sent.body)["problem"] == "copy"


def test_a_problem_is_published_with_all_its_settings(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    consent = tmp_path / "terms.md"
    consent.write_text("I agree.\n")
    result, (heard,) = run_against(
        lambda _: (201, WARNED),
        *("problem", "publish", folder, "--unchecked", "r", "--title", "Copy it"),
        *("--deadline", "2026-12-01 18:00", "--visibility", "closed", "--gpu", "H100"),
        *("--quota", "ranked=10/day", "--quota", "test=60/hour", "--ranking-by", "geom"),
        *("--source-visible", "always", "--publish", "never", "--consent", consent),
        *("--licence-submissions", "MIT"),
        **TOKENS,
    )
    assert result.exit_code == 0, result.output
    assert fields(heard) == {
        "slug": ["copy"],
        "unchecked": ["r"],
        "deadline": ["2026-12-01T18:00:00+00:00"],
        "visibility": ["closed"],
        "gpu": ["H100"],
        "quota": ["ranked=10/day", "test=60/hour"],
    }
    assert "copy: mind the gap" in result.stderr
    # What is of a version is in its files, by the very function that the server has.
    settings = PublishSettings(
        "Copy it", "geom", "always", "never", {"submissions": "MIT"}, b"I agree.\n"
    )
    (written,) = re.findall(
        rb'filename="warpboard.yml".*?\r\n\r\n(.*?)\r\n--', heard.body, re.DOTALL
    )
    files = FILES | {"warpboard.yml": written, "CONSENT.md": b"I agree.\n"}
    expected = compile_problem("copy", apply_settings(FILES, settings))
    assert compile_problem("copy", files).digest == expected.digest


def test_settings_are_shown_with_the_deadline_here_too() -> None:
    answer: dict[str, Any] = SETTINGS | {"deadline_at": "2026-12-01T18:00:00Z"}
    output = "\n".join(
        settings_lines(
            make_example(LeaderboardSettings, **answer), timezone(timedelta(hours=1), "CET")
        )
    )
    assert "until 2026-12-01 18:00 UTC (2026-12-01 19:00 CET here)" in output
    assert "GPU types: CPU; H100 no more, whose entries stay" in output
    assert "quotas of each participant: ranked=10/day" in output
    assert "until 2026-12-01 18:00 UTC\n" in "\n".join(
        settings_lines(make_example(LeaderboardSettings, **answer), UTC)
    )
