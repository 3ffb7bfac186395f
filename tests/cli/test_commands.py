"""Every command: what it asks, what it prints, how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.api.accounts import CurrentAccount
from shared.api.leaderboards import Leaderboard
from tests.cli.answers import ANSWER, PASSED, WRONG
from tests.cli.command_runner import run_against, run_warpboard
from tests.cli.stand_in import ReceivedRequest, Respond, respond_in_turn, run_stand_in
from tests.support.api_examples import make_document
from tests.support.platform import ROOT

NOTHING_THERE = "http://127.0.0.1:9"
KERNEL = "#!POPCORN leaderboard matmul\ndef custom_kernel(data):\n    return data\n"
RECEIPT = {"submissions": [{"number": 12, "gpu": "CPU"}], "problem_version": 3, "replayed": False}
PROBLEM = {"slug": "matmul", "problem_version": 3, "title": "Matmul", "gpus": ["CPU", "H100"]}
BOARD = {"problem": "matmul", "problem_version": 3, "gpu": "CPU", "items": []}
ENTRY = {"rank": 1, "number": 12, "score_us": 12.34, "participant": "ada"}


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A file that says for which leaderboard it is."""
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    return file


def submitting(*answers: tuple[int, Any]) -> Respond:
    """Answers a submission in turn, and what is read before it."""
    agent = {"id": "a1", "gpu": "CPU", "is_alive": True, "standing": "enrolled"}
    problem = PROBLEM | {"gpus": ["CPU"]}
    reads = {"/v1/agents": {"items": [agent]}, "/v1/problems/matmul": problem}
    respond = respond_in_turn(*answers)
    return lambda heard: (200, reads[heard.path]) if heard.path in reads else respond(heard)


def sent(heard: list[ReceivedRequest]) -> list[ReceivedRequest]:
    """The submissions among requests."""
    return [request for request in heard if request.method == "POST"]


def test_the_help_tells_the_exit_codes() -> None:
    assert "130 interrupted" in run_warpboard("--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("submit",),
        ("submit", "missing.py"),
        ("submit", "."),
        ("submission", "show", "0"),
        ("submission", "show", "twelve"),
        ("submission", "appeal", "0", "look"),
        ("submission", "appeal", "bans", "look"),
        ("run", "missing.py", "--problem", "."),
        ("duel", ".", "missing.py", "missing.py"),
        ("problem", "publish"),
        ("problem", "publish", "missing"),
        ("leaderboard", "show"),
        ("leaderboard", "show", "x", "--url", "nowhere"),
        ("leaderboard", "show", "x", "--url", "http://h:1", "--as", "Ada L"),
        ("demo", "--problems", "missing"),
        ("leaderboard", "show", "x", "--as-of", "yesterday"),
        ("submission", "quota", "--gpu", "CPU"),
        ("server", "gc", "--apply"),
        ("server", "restore", "missing"),
    ],
)
def test_wrong_usage_is_refused(arguments: tuple[str, ...]) -> None:
    result = run_warpboard(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr


def test_a_wrong_environment_is_refused_in_one_line() -> None:
    result = run_warpboard("problem", "list", WARPBOARD_URL="nowhere")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("leaderboard", "show", "matmul"),
        ("submission", "show", "12"),
        ("submission", "list"),
        ("problem", "list"),
        ("status",),
        ("submission", "queue"),
        ("agent", "list"),
        ("submission", "quota"),
        ("submission", "cancel", "12"),
    ],
)
def test_a_platform_that_is_not_there_is_told_at_once(arguments: tuple[str, ...]) -> None:
    result = run_warpboard(*arguments, "--url", NOTHING_THERE)
    assert result.exit_code == 3
    assert NOTHING_THERE in result.output


def test_without_a_platform_the_commands_say_how_to_start_one(tmp_path: Path) -> None:
    for arguments in (
        ("leaderboard", "show", "matmul"),
        ("server", "replay"),
    ):
        result = run_warpboard(*arguments, "--folder", tmp_path)
        assert result.exit_code == 3
        assert "warpboard up" in result.stderr
    assert "nothing runs" in run_warpboard("down", "--folder", tmp_path).stdout


def test_a_refusal_is_one_line(kernel: Path) -> None:
    refusal = {"detail": "no such GPU\ntype", "code": "unknown_gpu", "errors": [{"field": "gpu"}]}
    result, _ = run_against(submitting((400, refusal)), "submit", kernel, "--gpu", "X")
    assert result.exit_code == 2
    assert result.stderr == "warpboard: no such GPU type\n"


@pytest.mark.parametrize("code", ["quota_exceeded", "too_many_open"])
def test_a_quota_that_is_used_up_has_an_exit_code_of_its_own(kernel: Path, code: str) -> None:
    refusal = {"detail": "5 of 5 are used of matmul.CPU.ranked", "code": code}
    result, heard = run_against(submitting((429, refusal)), "submit", kernel)
    assert (result.exit_code, len(sent(heard))) == (4, 1)
    assert result.stderr == "warpboard: 5 of 5 are used of matmul.CPU.ranked\n"


def test_a_paused_intake_is_a_refusal_and_is_not_asked_again(kernel: Path) -> None:
    refusal = {"detail": "no submission is taken in: a new disk", "code": "submissions_paused"}
    result, heard = run_against(submitting((503, refusal)), "submit", kernel)
    assert (result.exit_code, len(sent(heard))) == (2, 1)
    assert "a new disk" in result.stderr


@pytest.mark.feature("N26")
def test_submit_tells_what_is_left_of_the_quota(kernel: Path) -> None:
    quota = {"bucket": "m.CPU.ranked", "limit": 5, "used": 2, "remaining": 3, "window_s": 86400}
    receipt = RECEIPT | {"submissions": [{"number": 12, "gpu": "CPU", "quota": quota}]}
    result, _ = run_against(submitting((202, receipt)), "submit", kernel, "--no-wait")
    assert "; 3 of 5 left of m.CPU.ranked per day" in result.stdout


def test_submit_takes_the_leaderboard_from_the_file(kernel: Path) -> None:
    result, heard = run_against(
        submitting((202, RECEIPT)), "submit", kernel, "--no-wait", "--as", "ada"
    )
    assert result.exit_code == 0
    assert "submission 12 received: matmul on CPU" in result.stdout
    (request,) = sent(heard)
    assert b'name="problem"\r\n\r\nmatmul' in request.body
    assert b'name="mode"\r\n\r\nranked' in request.body
    assert request.headers["warpboard-participant"] == "ada"


def test_submit_without_any_leaderboard_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text("x = 1\n")
    result = run_warpboard("submit", file, "--url", NOTHING_THERE)
    assert result.exit_code == 2
    assert "--leaderboard" in result.stderr


def test_a_file_that_is_not_utf8_is_refused_here(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_bytes(b"x = '\xff'\n")
    result = run_warpboard("submit", file, "--url", NOTHING_THERE)
    assert result.exit_code == 2
    assert "byte 5" in result.stderr


def test_a_submission_is_asked_again_under_one_key(kernel: Path) -> None:
    away = (503, {"detail": "starting", "code": "unavailable"})
    result, heard = run_against(
        submitting(away, away, (202, RECEIPT)), "submit", kernel, "--no-wait"
    )
    assert result.exit_code == 0
    assert len(sent(heard)) == 3
    assert len({request.headers["idempotency-key"] for request in sent(heard)}) == 1


def test_a_platform_that_is_away_is_reported_once_in_a_pipe(kernel: Path) -> None:
    away = (503, {"detail": "starting", "code": "unavailable"})
    result, _ = run_against(
        submitting(away, away, away, (202, RECEIPT)), "submit", kernel, "--no-wait"
    )
    assert result.stderr.count("starting") == 1


def test_submit_without_a_gpu_type_names_those_with_an_agent(kernel: Path) -> None:
    refusal = {"detail": "choose a GPU type: one of CPU, H100", "code": "unknown_gpu"}
    agents = [
        {"id": "a1", "gpu": "CPU", "is_alive": True, "standing": "enrolled"},
        {"id": "a2", "gpu": "H100", "is_alive": False, "standing": "enrolled"},
    ]
    reads = {"/v1/agents": {"items": agents}, "/v1/problems/matmul": PROBLEM}

    def respond(heard: ReceivedRequest) -> tuple[int, Any]:
        return (200, reads[heard.path]) if heard.path in reads else (400, refusal)

    result, _ = run_against(respond, "submit", kernel)
    assert result.exit_code == 2
    assert result.stderr == (
        "warpboard: choose a GPU type: --gpu CPU; without an agent now: H100\n"
    )


def test_what_to_type_next_keeps_the_participant(kernel: Path) -> None:
    with run_stand_in(submitting((202, RECEIPT))) as standin:
        result = run_warpboard("submit", kernel, "--no-wait", "--as", "ada", "--url", standin.url)
    command = f"warpboard submission show 12 --wait --url {standin.url} --as ada"
    assert result.stderr == f"wait for its verdict: {command}\n"


def test_a_list_says_whose_submissions_it_has() -> None:
    respond = respond_in_turn((200, {"items": [], "next_cursor": None}))
    result, _ = run_against(respond, "submission", "list", "--as", "grace")
    assert result.stdout.splitlines()[0] == "submissions of grace"


@pytest.mark.parametrize(("account", "exit_code"), [(None, 0), ("p1", 2)])
def test_a_name_without_an_account_has_no_submissions(account: str | None, exit_code: int) -> None:
    me = make_document(CurrentAccount, {"participant_id": account, "name": "grace"})
    refusal = {"detail": "this list needs a token", "code": "missing_credential"}

    def respond(heard: ReceivedRequest) -> tuple[int, Any]:
        return (200, me) if heard.path == "/v1/me" else (401, refusal)

    result, _ = run_against(respond, "submission", "list", "--as", "grace")
    assert result.exit_code == exit_code
    assert ("nothing yet" in result.stdout) == (account is None)


def test_two_submissions_have_two_keys(kernel: Path) -> None:
    with run_stand_in(submitting((202, RECEIPT))) as standin:
        for _ in range(2):
            run_warpboard("submit", kernel, "--no-wait", "--url", standin.url)
    assert len({request.headers["idempotency-key"] for request in sent(standin.heard)}) == 2


def life(*states: dict[str, Any]) -> Respond:
    """A receipt, then one state after the other."""
    return submitting((202, RECEIPT), *((200, state) for state in states))


@pytest.mark.parametrize("extra", [(), ("--yes",), ("--json",)])
def test_submit_without_an_agent_says_so_and_does_not_wait_for_an_answer(
    kernel: Path, extra: tuple[str, ...]
) -> None:
    warning = "no agent with H100 is alive: a submission waits"
    receipts = {"submissions": [{"number": 12, "gpu": "H100", "warning": warning}]}
    say = submitting((202, receipts))
    result, heard = run_against(say, "submit", kernel, "--no-wait", "--gpu", "h100", *extra)
    (request,) = sent(heard)
    assert (result.exit_code, b"waits_for_agent" in request.body) == (0, False)
    assert warning in result.stderr
    assert "submit anyway?" not in result.output


def test_submit_waits_for_the_end(kernel: Path) -> None:
    running = ANSWER | {"state": "running", "version": 20}
    result, heard = run_against(life(ANSWER, running, PASSED), "submit", kernel)
    assert result.exit_code == 0
    assert "submission 12: passed (ranked on CPU)" in result.stdout
    assert "submission 12: running" in result.stderr
    queries = [request.path.partition("?")[2] for request in heard if "?" in request.path]
    assert [query.partition("&")[0] for query in queries] == ["after=-1", "after=12", "after=20"]


def test_waiting_outlives_a_platform_that_restarts(kernel: Path) -> None:
    away = (503, {"detail": "restarting", "code": "unavailable"})
    say = submitting((202, RECEIPT), (200, ANSWER), away, away, (200, PASSED))
    result, _ = run_against(say, "submit", kernel)
    assert result.exit_code == 0
    assert "restarting" in result.stderr


@pytest.mark.feature("P4")
@pytest.mark.parametrize(
    ("end", "code"),
    [
        (WRONG, 1),
        (WRONG | {"outcome": "infra_failed", "verdict": None}, 3),
        (PASSED | {"is_eligible": False}, 5),
    ],
)
def test_the_exit_code_of_submit_is_its_end(kernel: Path, end: dict[str, Any], code: int) -> None:
    assert run_against(life(end), "submit", kernel)[0].exit_code == code


@pytest.mark.feature("P4")
def test_json_is_the_whole_answer_and_nothing_else(kernel: Path) -> None:
    result, _ = run_against(life(ANSWER, WRONG), "submit", kernel, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"submissions": [WRONG]}


def test_a_wait_has_an_end(kernel: Path) -> None:
    result, _ = run_against(life(ANSWER), "submit", kernel, "--timeout", "0.3")
    assert result.exit_code == 3
    assert "warpboard submission show 12 --wait" in result.stderr


def test_submission_shows_the_result_card_then_cases_and_timeline() -> None:
    result, heard = run_against(respond_in_turn((200, WRONG)), "submission", "show", 12)
    assert result.exit_code == 1
    assert heard[0].path == "/v1/submissions/12"
    assert result.stdout.startswith(
        "submission 12: wrong answer (ranked on CPU) in 8.4 s\n3 differ"
    )
    for words in ("size=65", "SubmissionReceived", "  hello", "wrong_answer"):
        assert words in result.stdout


def test_submission_in_json_is_the_answer() -> None:
    result, _ = run_against(respond_in_turn((200, PASSED)), "submission", "show", 12, "--json")
    assert json.loads(result.stdout) == PASSED


@pytest.mark.feature("D7")
def test_a_submissions_files_are_saved(tmp_path: Path) -> None:
    answer = PASSED | {"files": [{"name": "log.txt", "media": "text/plain", "bytes": 5}]}
    say = respond_in_turn((200, answer), (200, b"hello"))
    result, heard = run_against(say, "submission", "show", 12, "--save", tmp_path / "out")
    assert result.exit_code == 0
    assert "log.txt" in result.stdout
    assert heard[1].path == "/v1/submissions/12/files/log.txt"
    assert (tmp_path / "out" / "log.txt").read_bytes() == b"hello"


@pytest.mark.feature("P27")
def test_the_gpu_kernels_of_a_profile_are_listed() -> None:
    answer = PASSED | {"files": [{"name": "kernels.txt", "media": "text/plain", "bytes": 99}]}
    usage = b" Function axpy:\n  REG:14 STACK:0 SHARED:4096 LOCAL:8 CONSTANT[0]:912\n"
    say = respond_in_turn((200, answer), (200, usage))
    result, heard = run_against(say, "submission", "show", 12)
    assert heard[1].path == "/v1/submissions/12/files/kernels.txt"
    assert "axpy: 14 registers, 4,096 B shared, 8 B spilled or on the stack" in result.stdout
    gone = respond_in_turn((200, answer), (404, {"detail": "gone", "code": "not_found"}))
    assert run_against(gone, "submission", "show", 12)[0].exit_code == 0


def test_a_file_that_is_gone_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    answer = PASSED | {"files": [{"name": "log.txt"}]}
    gone = {"detail": "it is not kept any more", "code": "not_found"}
    result, _ = run_against(
        respond_in_turn((200, answer), (404, gone)), "submission", "show", 12, "--save", tmp_path
    )
    assert result.exit_code == 2
    assert "not kept any more" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_list_is_of_ones_own_unless_all_are_wanted() -> None:
    empty = respond_in_turn((200, {"items": []}))
    _, (mine,) = run_against(empty, "submission", "list", "--problem", "matmul")
    _, (all_,) = run_against(empty, "submission", "list", "--all", "--limit", 3)
    filters = ("--gpu", "CPU", "--mode", "ranked", "--state", "open")
    _, (filtered,) = run_against(empty, "submission", "list", *filters)
    assert mine.path == "/v1/me/submissions?problem=matmul&limit=50"
    assert all_.path == "/v1/submissions?limit=3"
    assert filtered.path == "/v1/me/submissions?gpu=CPU&mode=ranked&state=open&limit=50"


def test_a_submission_names_its_parent(kernel: Path) -> None:
    _, heard = run_against(submitting((202, RECEIPT)), "submit", kernel, "--no-wait", "--parent", 7)
    (request,) = sent(heard)
    assert b'name="parent"\r\n\r\n7' in request.body
    refused, heard = run_against(submitting(), "submit", kernel, "--parent", "0")
    assert (refused.exit_code, heard) == (2, [])


def test_a_submission_is_noted_and_listed_by_its_tag(kernel: Path) -> None:
    _, heard = run_against(
        submitting((202, RECEIPT)),
        "submit",
        kernel,
        "--no-wait",
        "--note",
        "tiles",
        "--tag",
        "v2",
        "--runner",
        "github",
    )
    (request,) = sent(heard)
    assert b'name="note"\r\n\r\ntiles' in request.body
    assert b'name="tag"\r\n\r\nv2' in request.body
    assert b'name="runner"\r\n\r\ngithub' in request.body
    _, (list_request,) = run_against(
        respond_in_turn((200, {"items": []})), "submission", "list", "--tag", "v2"
    )
    assert list_request.path == "/v1/me/submissions?tag=v2&limit=50"
    refused, heard = run_against(
        respond_in_turn((200, {"items": []})), "submission", "list", "--tag", "v2", "--all"
    )
    assert (refused.exit_code, heard) == (2, [])


def test_show_takes_every_gpu_type_of_the_problem() -> None:
    board = BOARD | {"items": [ENTRY]}
    say = respond_in_turn((200, PROBLEM), (200, board), (200, BOARD | {"gpu": "H100"}))
    result, heard = run_against(say, "leaderboard", "show", "matmul")
    assert [request.path.rpartition("/")[2] for request in heard] == ["matmul", "CPU", "H100"]
    assert "12.34 µs" in result.stdout
    assert "no entry yet on H100" in result.stdout


def test_an_empty_leaderboard_says_where_the_entries_are() -> None:
    others = [{"problem_version": 1, "entries_count": 12}]
    empty = BOARD | {"items": [], "problem_version": 2, "other_versions": others}
    result, _ = run_against(respond_in_turn((200, empty)), "leaderboard", "show", "matmul", "CPU")
    assert (
        "version 1 has 12 entries: warpboard leaderboard show matmul CPU --version 1"
        in result.stdout
    )
    _, heard = run_against(
        respond_in_turn((200, BOARD)), "leaderboard", "show", "matmul", "CPU", "--version", 1
    )
    assert heard[0].path.endswith("/v1/leaderboards/matmul/CPU?version=1")


def test_show_in_json_holds_every_leaderboard() -> None:
    result, _ = run_against(
        respond_in_turn((200, BOARD)), "leaderboard", "show", "matmul", "CPU", "--json"
    )
    assert json.loads(result.stdout) == {"leaderboards": [make_document(Leaderboard, BOARD)]}


def test_a_file_that_the_platform_would_not_take_is_refused_here(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(f"#{'x' * 1_000_000}")
    for words in (
        ("submit", file, "--url", NOTHING_THERE),
        ("run", file, "--problem", ROOT / "problems" / "identity"),
        ("duel", ROOT / "problems" / "identity", file, file),
    ):
        result = run_warpboard(*words)
        assert result.exit_code == 2
        assert "is over 1,000,000 bytes" in result.stderr, result.stderr
