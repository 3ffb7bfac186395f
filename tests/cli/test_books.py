"""The books of a platform: what each command does with a folder or a file, and its exit code."""

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from tests.cli.command_runner import run_warpboard
from tests.cli.test_ranker_commands import exported


@pytest.fixture
def copy(tmp_path: Path) -> tuple[Path, str]:
    """A small log in a file, and the key of its seals."""
    file = tmp_path / "log.gz"
    return file, asyncio.run(exported(tmp_path, file))


def test_a_file_is_audited_without_any_server(copy: tuple[Path, str]) -> None:
    file, key = copy
    audited = run_warpboard("server", "audit", "identity", "CPU", "--file", file, "--key", key)
    assert audited.exit_code == 0, audited.output
    assert "SubmissionFinished" in audited.stdout
    assert audited.stdout.splitlines()[-1].startswith("clean: ")
    audited = run_warpboard("server", "audit", "--rating", "--file", file, "--key", key)
    assert audited.exit_code == 0, audited.output
    assert " for rank 1 of " in audited.stdout
    assert audited.stdout.splitlines()[-1].startswith("clean: the rating ")


def test_an_audit_that_is_not_clean_ends_with_1_and_the_whole_report(
    copy: tuple[Path, str],
) -> None:
    file, _ = copy
    stranger = "A" * 43 + "="
    audited = run_warpboard(
        "server", "audit", "identity", "CPU", "--file", file, "--key", stranger, "--json"
    )
    assert audited.exit_code == 1
    assert json.loads(audited.stdout)["findings"]


def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "log.gz"
    file.write_bytes(gzip.compress(b"no log"))
    audited = run_warpboard("server", "audit", "identity", "CPU", "--file", file)
    assert (audited.exit_code, audited.stdout) == (2, "")
    assert audited.stderr.splitlines()[-1].startswith("warpboard: ")


@pytest.mark.parametrize(
    "words",
    [
        ("server", "replay"),
        ("server", "gc"),
        ("server", "replay", "--projection", "archive"),
    ],
)
def test_what_needs_a_platform_says_how_to_start_one(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    result = run_warpboard(*words, "--folder", tmp_path)
    assert result.exit_code == 3
    assert "warpboard up" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("server", "restore", "FILE"),
        ("server", "repair", "FILE"),
        ("server", "gc"),
    ],
)
def test_what_is_done_in_a_folder_is_done_at_no_url(
    copy: tuple[Path, str], words: tuple[str, ...]
) -> None:
    arguments = [copy[0] if word == "FILE" else word for word in words]
    result = run_warpboard(*arguments, "--url", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "--folder" in result.stderr
