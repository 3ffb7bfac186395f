"""Commands of operators: which request each makes, with whose token, and what it says."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_runner import run_against, run_warpboard
from tests.cli.stand_in import respond_in_turn, run_stand_in

TOKEN = "secret-token"
WHY = ("--reason", "r")
MADE = {"event": "Made", "seq": 7}
POST, PUT, DELETE = "POST", "PUT", "DELETE"


def operating(*arguments: object, answer: Any = MADE, status: int = 200) -> Any:
    """An operator's command against a stand-in; how it ended, and the request."""
    result, heard = run_against(
        respond_in_turn((status, answer)),
        *(*arguments, "--operator", "olga"),
        WARPBOARD_OPERATOR_TOKEN=TOKEN,
    )
    return result, heard


REQUESTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("admin intake pause", POST, "admin/intake/pause", {}),
    ("admin intake resume", POST, "admin/intake/resume", {}),
    ("admin pool pause H200", POST, "admin/pools/H200/pause", {}),
    ("admin pool resume H200", POST, "admin/pools/H200/resume", {}),
    ("admin pool no-canary H200", DELETE, "admin/pools/H200/canary", {}),
    ("agent cordon a1", POST, "admin/agents/a1/cordon", {}),
    ("agent drain a1", POST, "admin/agents/a1/drain", {}),
    ("agent quarantine a1", POST, "admin/agents/a1/quarantine", {}),
    ("agent release a1", POST, "admin/agents/a1/release", {}),
    ("agent revoke a1", POST, "admin/agents/a1/revoke", {}),
    (
        *("agent enroll a1 --key K= --owner lab", POST, "admin/agents/a1/enroll"),
        {"sign_key": "K=", "owner": "lab"},
    ),
    ("admin submission hold 12 --rule x", POST, "admin/submissions/12/hold", {"rule": "x"}),
    (
        "admin submission disqualify 12 --rule x",
        POST,
        "admin/submissions/12/disqualify",
        {"rule": "x"},
    ),
    ("admin submission release 12", POST, "admin/submissions/12/release", {}),
    ("admin submission restore 12", POST, "admin/submissions/12/restore", {}),
    ("admin submission retry 12", POST, "admin/submissions/12/retry", {}),
    ("admin submission cancel 12", POST, "submissions/12/cancel", {}),
    (
        *("admin submission decide-appeal 12 reject", POST, "admin/submissions/12/decide-appeal"),
        {"is_accepted": False},
    ),
    (
        *("admin participant ban m --until 2027-01-01T00:00:00Z", POST, "admin/participants/m/ban"),
        {"until_at": "2027-01-01T00:00:00+00:00"},
    ),
    (
        *("admin participant merge m --into n", POST, "admin/participants/m/merge"),
        {"into": "n"},
    ),
    ("admin participant ban m", POST, "admin/participants/m/ban", {"until_at": None}),
    (
        *("admin participant decide-appeal m accept", POST, "admin/participants/m/decide-appeal"),
        {"is_accepted": True},
    ),
    ("admin participant unban m", POST, "admin/participants/m/unban", {}),
    (
        *("admin quota set p.*.ranked --limit none", PUT, "admin/quota"),
        {
            "bucket": "p.*.ranked",
            "limit": None,
            "window_s": None,
            "participant": None,
            "role": None,
            "contest": None,
            "team": None,
        },
    ),
    (
        *("admin quota set p.CPU.test --limit 3 --window 60 --participant m", PUT, "admin/quota"),
        {
            "bucket": "p.CPU.test",
            "limit": 3,
            "window_s": 60.0,
            "participant": "m",
            "role": None,
            "contest": None,
            "team": None,
        },
    ),
    (
        *("admin quota set p.main.ranked --limit 9 --contest cup --team Duo", PUT, "admin/quota"),
        {
            "bucket": "p.main.ranked",
            "limit": 9,
            "window_s": None,
            "participant": None,
            "role": None,
            "contest": "cup",
            "team": "Duo",
        },
    ),
    (
        *("admin quota set *.*.ranked --limit 50 --role creator", PUT, "admin/quota"),
        {
            "bucket": "*.*.ranked",
            "limit": 50,
            "window_s": None,
            "participant": None,
            "role": "creator",
            "contest": None,
            "team": None,
        },
    ),
    ("admin projection skip ranker 9", POST, "admin/projections/ranker/skip", {"seq": 9}),
    ("problem rejudge apply r1", POST, "admin/rejudges/r1/apply", {}),
    ("problem rejudge discard r1", POST, "admin/rejudges/r1/discard", {}),
    ("admin deadletter redrive c 9", POST, "admin/deadletters/c/9/redrive", {}),
]


@pytest.mark.parametrize(("words", "method", "path", "said"), REQUESTS)
def test_each_deed_is_one_request_with_its_reason(
    words: str, method: str, path: str, said: dict[str, Any]
) -> None:
    result, (heard,) = operating(*words.split(), *WHY)
    assert result.stdout == "done: Made, event 7\n", result.output
    assert (heard.method, heard.path) == (method, f"/v1/{path}")
    assert json.loads(heard.body) == said | {"reason": "r"}
    assert heard.headers["authorization"] == f"Bearer {TOKEN}"
    assert heard.headers["warpboard-operator"] == "olga"


def test_a_canary_is_chosen_without_a_reason() -> None:
    _, (heard,) = operating("admin", "pool", "canary", "H200", "--submission", 12)
    assert (heard.method, heard.path) == (PUT, "/v1/admin/pools/H200/canary")
    assert json.loads(heard.body) == {"submission": 12, "every_s": 3600.0, "ratio_max": 1.1}


@pytest.mark.parametrize(
    "words",
    [
        *(words for words, _, _, _ in REQUESTS),
        "admin quota set p.CPU.test --limit many --reason r",
        "admin submission decide-appeal 12 --reason r",
        "admin submission decide-appeal 12 perhaps --reason r",
        "admin participant ban m --until tomorrow --reason r",
        "admin submission hold 12 --reason r",
        "problem rejudge start p",
    ],
)
def test_without_a_reason_nothing_is_asked(words: str) -> None:
    result, heard = operating(*words.split())
    assert (result.exit_code, heard) == (2, [])


def test_what_is_so_already_is_no_failure() -> None:
    result, _ = operating("admin", "intake", "pause", *WHY, answer={"event": None, "seq": None})
    assert (result.exit_code, result.stdout) == (0, "nothing to do: this is already the case\n")


def test_json_is_the_answer() -> None:
    result, _ = operating("admin", "intake", "pause", *WHY, "--json")
    assert json.loads(result.stdout) == MADE


def test_without_a_token_operators_are_told_where_it_is_looked_for() -> None:
    result, heard = run_against(respond_in_turn((200, MADE)), "admin", "intake", "pause", *WHY)
    assert (result.exit_code, heard) == (2, [])
    assert "WARPBOARD_OPERATOR_TOKEN" in result.stderr


def test_a_folders_token_goes_to_its_own_platform_alone(tmp_path: Path) -> None:
    (tmp_path / "operator_token").write_text(TOKEN)
    pausing = ("admin", "intake", "pause", *WHY, "--folder", tmp_path)
    with run_stand_in(respond_in_turn((200, MADE))) as standin:
        (tmp_path / "state.json").write_text(json.dumps({"url": standin.url}))
        assert run_warpboard(*pausing).exit_code == 0
        assert run_warpboard(*pausing, "--url", standin.url).exit_code == 2
    (heard,) = standin.heard
    assert heard.headers["authorization"] == f"Bearer {TOKEN}"


def test_a_rejudge_is_begun_with_all_that_was_said() -> None:
    answer = {"id": "r1", "count": 2, "from_version": 1, "to_version": 2}
    start = ("problem", "rejudge", "start", "matmul", "--select", "all", "--gpu", "CPU", *WHY)
    result, (heard,) = operating(*start, answer=answer, status=201)
    assert "warpboard problem rejudge show r1" in result.stdout
    assert json.loads(heard.body) == {
        "problem": "matmul",
        "gpu": "CPU",
        "select": "all",
        "from_version": None,
        "to_version": None,
        "reason": "r",
    }


SIDE = {"verdict": "passed", "is_eligible": True, "code": "ranked", "score_us": 12.0, "rank": 1}
WORSE = SIDE | {"verdict": "wrong_answer", "is_eligible": False, "code": "failed", "rank": None}
REJUDGE = {
    "id": "r1",
    "problem": "matmul",
    "from_version": 1,
    "to_version": 2,
    "state": "previewed",
    "count": 2,
    "judged": 2,
    "select": "best",
    "reason": "odd sizes",
    "actor": "operator:olga",
    "preview": {
        "items": [
            {"number": 12, "gpu": "CPU", "participant_id": "a1", "old": SIDE, "new": SIDE},
            {"number": 13, "gpu": "CPU", "old": SIDE, "new": WORSE, "changed": True},
        ],
        "moves": [{"gpu": "CPU", "participant_id": "a2", "old_rank": 1, "new_rank": None}],
        "changed_count": 1,
    },
}


def test_a_rejudge_is_shown_with_what_changes_first() -> None:
    result, (heard,) = operating("problem", "rejudge", "show", "r1", answer=REJUDGE)
    assert heard.path == "/v1/rejudges/r1"
    lines = result.stdout.splitlines()
    assert lines[0] == "preview: 1 of 2 submissions change"
    assert lines[2].split()[:4] == ["13", "CPU", "passed", "→"]
    assert "a2" in result.stdout
    assert lines[-1] == "nothing counts yet: warpboard problem rejudge apply r1, or discard"


LETTER = {
    "consumer": "outbox",
    "seq": 9,
    "stream": "EVENTS",
    "reason": "it answers 500\x1b",
    "at": "2026-01-02T03:04:05Z",
    "deliveries": 5,
}


def test_dead_letters_are_listed_and_shown() -> None:
    list_result, _ = operating("admin", "deadletter", "list", answer={"items": [LETTER]})
    assert "it answers 500\\x1b" in list_result.stdout
    show_result, _ = operating(
        "admin", "deadletter", "show", "outbox", 9, answer={"items": [LETTER]}
    )
    assert "warpboard admin deadletter redrive outbox 9" in show_result.stdout
    missing, _ = operating("admin", "deadletter", "show", "outbox", 8, answer={"items": [LETTER]})
    assert missing.exit_code == 2


LABEL = {
    "rule": "sleep_called",
    "severity": "high",
    "title": "sleeps",
    "places": [{"file": "k.py", "line": 5}],
}


def test_labels_are_listed_and_shown_with_their_lines() -> None:
    line = {
        "number": 12,
        "participant_id": "a1",
        "participant": "eve",
        "problem": "m",
        "problem_version": 1,
        "gpu": "CPU",
        "received_at": "2026-01-02T03:04:05Z",
        "outcome": "passed",
        "code": None,
        "labels": [LABEL],
    }
    answer = {"items": [line], "next_before": 12, "version": 1, "is_complete": False, "as_of": 9}
    result, (heard,) = operating("admin", "label", "list", "--severity", "high", answer=answer)
    assert heard.path.startswith("/v1/admin/labels?")
    assert "severity=high" in heard.path
    assert "sleep_called" in result.stdout
    assert "still being screened" in result.stdout
    assert "--before 12" in result.stdout
    evidence = [{"file": "k.py", "line": 5, "excerpt": "time.sleep(1)\x1b"}]
    label = LABEL | {"why": "It waits.", "page": "/guide/x", "evidence": evidence}
    answer = {"number": 12, "labels": [label], "version": 1, "as_of": 9}
    result, _ = operating("admin", "label", "show", 12, answer=answer)
    assert result.stdout.splitlines() == [
        "high: sleep_called: the source sleeps",
        "  k.py:5: time.sleep(1)\\x1b",
        "  It waits.",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("submission", "show", 12),
        ("submission", "list", "--all"),
        ("submission", "trace", 12),
        ("submission", "queue"),
    ],
)
def test_who_looks_as_an_operator_shows_the_token(words: tuple[object, ...]) -> None:
    _, heard = operating(*words, answer={"items": []})
    assert heard[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert heard[0].headers["warpboard-operator"] == "olga"
