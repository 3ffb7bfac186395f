"""Lists, comparisons, exports, and what a shell completes."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shared.presentation.units import mark_diff_lines
from tests.cli.answers import ANSWER, PASSED
from tests.cli.command_cases import PROBLEM, say
from tests.cli.command_runner import PROGRAM, environment, run_against, run_warpboard
from tests.cli.stand_in import ReceivedRequest, respond_in_turn, run_stand_in

CASE = {"name": "n=1", "a_us": 4.0, "b_us": 2.0, "ratio": 0.5, "ci95": [0.45, 0.55]}
COMPARED = {"diff": "--- 12\n+++ 15\n@@ -1 +1 @@\n-a\x1b[2J\n+b", "cases": [CASE]}


def pages(heard: ReceivedRequest) -> tuple[int, Any]:
    """Two pages of one's own submissions."""
    if "cursor=next" in heard.path:
        return 200, {"items": [ANSWER | {"number": 1, "name": 'odd,"name'}]}
    return 200, {"items": [PASSED, ANSWER | {"number": 11}], "next_cursor": "next"}


def test_a_comparison_shows_the_sources_and_each_case() -> None:
    result, heard = run_against(respond_in_turn((200, COMPARED)), "submission", "diff", 12, 15)
    assert heard[0].path == "/v1/compare?a=12&b=15"
    assert "-a\\x1b[2J" in result.stdout
    assert "0.450 to 0.550" in result.stdout


def test_sources_that_one_may_not_see_are_said_to_be_so() -> None:
    result, _ = run_against(
        respond_in_turn((200, {"diff": None, "cases": []})), "submission", "diff", 12, 15
    )
    assert "may not see" in result.stdout
    result, _ = run_against(
        respond_in_turn((200, {"diff": "", "cases": []})), "submission", "diff", 12, 15
    )
    assert "equal" in result.stdout


def test_a_source_comes_back_as_it_was_sent() -> None:
    source = "# \x1b[2J\nimport torch\n"
    answer = ANSWER | {"source_files": [{"name": "kernel.py", "text": source}]}
    result, heard = run_against(respond_in_turn((200, answer)), "submission", "source", 12)
    assert (result.stdout, heard[0].path) == (source, "/v1/submissions/12?source=true")


def test_all_files_of_a_submission_are_saved(tmp_path: Path) -> None:
    files = {"kernel.py": "import helper\n", "lib/tile.cuh": "int x;\n"}
    texts = [{"name": name, "text": text} for name, text in files.items()]
    respond = respond_in_turn((200, ANSWER | {"source_files": texts}))
    result, _ = run_against(respond, "submission", "source", 12, "--save", tmp_path / "all")
    assert "saved kernel.py, lib/tile.cuh" in result.stdout
    assert {name: (tmp_path / "all" / name).read_text() for name in files} == files


def test_a_file_that_leads_elsewhere_is_not_saved(tmp_path: Path) -> None:
    texts = [{"name": "kernel.py", "text": ""}, {"name": "../evil.py", "text": "x"}]
    respond = respond_in_turn((200, ANSWER | {"source_files": texts}))
    result, _ = run_against(respond, "submission", "source", 12, "--save", tmp_path / "all")
    assert result.exit_code == 2
    assert "not a valid file name" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_head_of_a_diff_is_no_change() -> None:
    assert [kind for kind, _ in mark_diff_lines("--- a\n+++ b\n-x\n+y")] == [
        *("place", "place"),
        *("removed", "added"),
    ]


def test_an_export_holds_every_page() -> None:
    result, _ = run_against(pages, "submission", "export")
    assert [submission["number"] for submission in json.loads(result.stdout)["submissions"]] == [
        12,
        11,
        1,
    ]


def test_an_export_for_tables_keeps_odd_names_whole(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    result, _ = run_against(pages, "submission", "export", "--format", "csv", "--output", file)
    assert result.stdout == f"{file} holds 3 submissions\n"
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [row["number"] for row in rows] == ["12", "11", "1"]
    assert rows[-1]["name"] == 'odd,"name'
    assert rows[0]["score_us"] == "12.34"


def test_an_output_is_written_into_what_is_no_plain_file() -> None:
    result, _ = run_against(pages, "submission", "export", "--output", "/dev/null")
    assert result.exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_an_output_into_no_folder_is_refused_and_makes_none(tmp_path: Path) -> None:
    result, _ = run_against(
        pages, "submission", "export", "--output", tmp_path / "missing" / "x.json"
    )
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_submit_writes_its_answer_into_a_file(tmp_path: Path) -> None:
    kernel, file = tmp_path / "k.py", tmp_path / "verdict.json"
    kernel.write_text("x = 1\n")
    receipts = {"submissions": [{"number": 12, "gpu": "CPU"}]}
    say = respond_in_turn((202, receipts), (200, PASSED))
    words = ("submit", kernel, "--leaderboard", "matmul", "--output", file)
    result, _ = run_against(say, *words)
    assert result.exit_code == 0
    assert json.loads(file.read_text()) == {"submissions": [PASSED]}
    assert "submission 12: passed" in result.stdout


def test_what_is_deleted_without_a_terminal_needs_a_word() -> None:
    result, heard = run_against(
        respond_in_turn((200, {"event": "Made", "seq": 7})), "submission", "delete", 12
    )
    assert (result.exit_code, heard) == (2, [])
    assert "--yes" in result.stderr


def completed(word: str, *before: str, url: str) -> list[str]:
    """What bash is told to complete a word with."""
    words = " ".join(("warpboard", *before, word))
    completion = {"COMP_WORDS": words, "COMP_CWORD": str(len(before) + 1), "WARPBOARD_URL": url}
    variables = environment(completion | {"_WARPBOARD_COMPLETE": "bash_complete"})
    result = CliRunner().invoke(PROGRAM, [], prog_name="warpboard", env=variables)
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


def test_a_shell_completes_commands_and_the_names_of_problems() -> None:
    other = PROBLEM | {"slug": "softmax"}
    with run_stand_in(respond_in_turn((200, {"items": [PROBLEM, other]}))) as standin:
        assert completed("leader", url=standin.url) == ["leaderboard"]
        assert completed("s", "leaderboard", "show", url=standin.url) == ["softmax"]
        assert completed("", "problem", "show", url=standin.url) == ["m", "softmax"]


def test_a_shell_completes_nothing_where_nobody_answers() -> None:
    assert completed("s", "leaderboard", "show", url="http://127.0.0.1:9") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(shell: str) -> None:
    result = run_warpboard("completion", shell)
    assert result.exit_code == 0
    assert "_WARPBOARD_COMPLETE" in result.stdout


PAGE = "http://127.0.0.1:9/leaderboards/m/H200"


def test_web_prints_an_address_where_nobody_could_see_a_browser() -> None:
    platform = ("--url", "http://127.0.0.1:9")
    for words in (
        ("web", "leaderboards/m/H200"),
        ("web", "/leaderboards/m/H200"),
        ("leaderboard", "show", "m", "H200", "--web"),
    ):
        result = run_warpboard(*words, *platform)
        assert (result.exit_code, result.stdout) == (0, f"{PAGE}\n"), words
    result = run_warpboard("web", "--json", *platform)
    assert json.loads(result.stdout) == {"url": "http://127.0.0.1:9/", "is_opened": False}
    assert run_warpboard("submission", "show", 12, "--web", *platform).stdout.endswith("/12\n")
    problem = run_warpboard("leaderboard", "show", "m", "--web", "--version", 2, *platform)
    assert problem.stdout == "http://127.0.0.1:9/problems/m?version=2\n"
    refused = run_warpboard("web", "https://example.org", *platform)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "such as account" in refused.stderr


def test_submit_names_the_page_of_what_it_submitted(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("#!POPCORN leaderboard m\n")
    options = ("--gpu", "CPU", "--mode", "test", "--no-wait", "--yes", "--web")
    result, heard = run_against(say, "submit", file, *options)
    assert result.exit_code == 0, result.output
    assert f"http://{heard[0].headers['host']}/submissions/12\n" in result.stderr


def test_web_opens_a_browser_from_a_terminal(tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    controller, terminal = os.openpty()
    subprocess.run(
        [sys.executable, "-m", "warpboard", *("web", "leaderboards/m/H200", "--url"), PAGE[:18]],
        check=True,
        stdout=terminal,
        env=os.environ | {"BROWSER": f"{browser} %s"},
        timeout=60,
    )
    assert opened.read_text() == f"{PAGE}\n"
    assert f"opened {PAGE}" in os.read(controller, 4096).decode()
    for descriptor in (controller, terminal):
        os.close(descriptor)
