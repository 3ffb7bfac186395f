"""What anybody may ask: queues, quotas, histories, records, traces, and how the platform is."""

import json
from typing import Any

import pytest

from shared.api.agents import Agent
from shared.api.moderation import LogScrub
from shared.api.queues import Pool
from shared.presentation.units import EN_DASH
from tests.cli.answers import ANSWER, RECEIVED_AT
from tests.cli.command_cases import CASE_LEADERBOARDS
from tests.cli.command_runner import run_against
from tests.cli.stand_in import ReceivedRequest, respond_in_turn
from tests.support.api_examples import make_document

AGENT = {
    "id": "a1",
    "gpu": "CPU",
    "level": "none",
    "is_alive": True,
    "is_free": True,
    "standing": "enrolled",
}
HELD = AGENT | {"standing": "cordoned", "standing_reason": "drifts"}
JOB = {"submission": "s1", "number": 12, "position": 1, "eta_s": 3.2, "eta_p90_s": 9.0}
PAUSED = {"submission": "s2", "position": 2, "why": "the pool is paused: heat"}
POOL = {
    "gpu": "CPU",
    "waiting": 2,
    "paused": "heat",
    "slots_free": 1,
    "slots_busy": 0,
    "run_s": {"p50": 4.0},
    "forecast": [JOB, PAUSED],
}
OTHER = {"gpu": "H100", "waiting": 0}
QUEUE = {"items": [], "pools": [POOL, OTHER], "parked": {"seq": 9, "error": "no fold"}}
BALANCE = {"bucket": "m.CPU.ranked", "limit": 5, "used": 2, "remaining": 3, "window_s": 3600.0}
OPEN = {"open_submissions": {"used": 3, "limit": 100}}
PAST = {"number": 12, "verdict": "passed", "score_us": 4.0, "counts": True, "was_best": True}
RECORD = {
    "seq": 9,
    "number": 12,
    "score_us": 4.0,
    "previous_us": 5.0,
    "at": RECEIVED_AT,
    "is_standing": True,
}


def answering(answers: dict[str, Any]) -> Any:
    """Says to each path what is there for it."""

    def say(heard: ReceivedRequest) -> tuple[int, Any]:
        path = heard.path.partition("?")[0].removeprefix("/v1/")
        if path in answers:
            return 200, answers[path]
        return 403, {"detail": "operators are let in nowhere", "code": "no_access"}

    return say


def test_a_queue_shows_who_waits_and_why() -> None:
    result, _ = run_against(respond_in_turn((200, QUEUE)), "submission", "queue", "--gpu", "cpu")
    assert result.exit_code == 0
    for words in ("paused: heat", "3 s", "s2", "the pool is paused: heat"):
        assert words in result.stdout
    assert "H100" not in result.stdout


@pytest.mark.feature("P1")
def test_idle_gpu_types_and_baselines_are_hidden_unless_all_are_wanted() -> None:
    baselines = [
        {"position": place, "is_baseline": True, "why": "it runs last"} for place in (2, 3)
    ]
    pools = [POOL | {"forecast": [JOB, *baselines]}, OTHER]
    pools.append(OTHER | {"gpu": "B200", "paused": "old"})
    answers = answering(PLATFORM | {"queue": QUEUE | {"pools": pools}})
    for words in ("submission queue", "status"):
        result, _ = run_against(answers, *words.split())
        assert "H100" not in result.stdout
        assert (f"2{EN_DASH}3" in result.stdout) == (words == "submission queue")
        assert result.stdout.count("it runs last") == (words == "submission queue")
        assert "B200" in result.stdout
        assert "1 GPU type without agents or waiting submissions left out" in result.stderr
        result, _ = run_against(answers, *words.split(), "--all")
        assert "H100" in result.stdout
        assert result.stdout.count("it runs last") == 2 * (words == "submission queue")
        assert "--all" not in result.stderr


@pytest.mark.feature("P1")
def test_ended_leaderboards_are_hidden_unless_all_are_wanted() -> None:
    items = [
        {"slug": state, "state": state, "visibility": "public"}
        for state in ("active", "ended", "archived")
    ]
    for words in ("problem list", "leaderboard list"):
        result, _ = run_against(respond_in_turn((200, {"items": items})), *words.split())
        assert [line.split()[0] for line in result.stdout.splitlines()[2:-1]] == ["active"]
        assert result.stderr == "2 ended problems left out: --all shows everything\n"
        every = respond_in_turn((200, {"items": items}))
        result, _ = run_against(every, *words.split(), "--all")
        assert len(result.stdout.splitlines()[2:-1]) == 3


def test_a_queue_of_an_unknown_gpu_type_is_refused() -> None:
    result, _ = run_against(respond_in_turn((200, QUEUE)), "submission", "queue", "--gpu", "TPU")
    assert result.exit_code == 2
    assert "'TPU'" in result.stderr


@pytest.mark.feature("A8")
def test_agents_say_what_they_run_and_what_holds_them_back() -> None:
    run = {"kind": "canary", "number": 12, "assigned_at": "2026-01-01T00:00:00Z"}
    agents = {"items": [HELD, AGENT | {"id": "a2", "is_free": False, "current_runs": [run]}]}
    result, _ = run_against(respond_in_turn((200, agents)), "agent", "list")
    assert "cordoned: drifts" in result.stdout
    assert "canary #12 for " in result.stdout


def test_a_quota_tells_what_is_left_or_that_there_is_no_limit() -> None:
    result, heard = run_against(
        respond_in_turn((200, {"items": [BALANCE]})), "submission", "quota", "m", "--gpu", "CPU"
    )
    assert heard[0].path == "/v1/quota?problem=m&gpu=CPU"
    assert result.stdout.splitlines()[2].split()[:5] == ["m.CPU.ranked", "2", "5", "3", "hour"]
    phase = BALANCE | {"bucket": "m.main.ranked", "contest": "cup"}
    result, _ = run_against(
        respond_in_turn((200, {"items": [BALANCE, phase]} | OPEN)), "submission", "quota"
    )
    assert result.stdout.splitlines()[3].split()[4:5] == ["phase"]
    assert result.stdout.splitlines()[3].split()[-1] == "cup"
    result, _ = run_against(respond_in_turn((200, {"items": []} | OPEN)), "submission", "quota")
    assert result.stdout == "no quota applies to you\nopen submissions: 3 of at most 100\n"


def test_a_history_is_of_every_leaderboard_of_ones_own() -> None:
    board = {"participant": "ada", "problem": "m", "problem_version": 1, "items": [PAST]}
    answers = {
        "problems": {"items": [{"slug": "m", "problem_version": 1, "title": "M", "gpus": ["CPU"]}]},
        "problems/m": {"slug": "m", "problem_version": 1, "title": "M", "gpus": ["CPU"]},
        "participants/ada/history": board | {"gpu": "CPU"},
    }
    result, heard = run_against(answering(answers), "leaderboard", "history", "--as", "ada")
    assert "best so far" in result.stdout
    assert heard[-1].path == "/v1/participants/ada/history?problem=m&gpu=CPU"
    _, heard = run_against(
        answering(answers), "leaderboard", "history", "m", "--version", 1, "--as", "ada"
    )
    assert heard[-1].path == "/v1/participants/ada/history?problem=m&gpu=CPU&version=1"


def test_records_tell_what_was_before_them() -> None:
    result, heard = run_against(
        respond_in_turn((200, {"items": [RECORD]})), "leaderboard", "records", "m", "CPU"
    )
    assert heard[0].path == "/v1/leaderboards/m/CPU/records"
    assert "5 µs" in result.stdout
    assert "valid" in result.stdout


@pytest.mark.feature("N19")
def test_a_trace_tells_how_long_after_and_who_said_it() -> None:
    began = {"seq": 14, "type": "RunStarted", "at": "2026-01-02T03:04:06.178+00:00"}
    began |= {"actor": "agent:a1"}
    answer = ANSWER | {"timeline": [*ANSWER["timeline"], began]}
    result, _ = run_against(respond_in_turn((200, answer)), "submission", "trace", 12)
    line = result.stdout.splitlines()[3]
    assert line.split()[4:] == ["+0.500", "s", "RunStarted", "agent:a1"]


def test_a_past_leaderboard_is_asked_for_by_its_instant() -> None:
    board = {"problem": "m", "problem_version": 3, "gpu": "CPU", "items": []}
    past = ("leaderboard", "show", "m", "CPU", "--as-of", "2026-01-02T03:04:05Z")
    say = respond_in_turn((200, board | {"as_of_at": "2026-01-02T03:04:05Z"}))
    result, heard = run_against(say, *past)
    assert heard[0].path == "/v1/leaderboards/m/CPU?as_of=2026-01-02T03%3A04%3A05%2B00%3A00"
    assert "as of 2026-01-02" in result.stdout
    result, _ = run_against(respond_in_turn((200, board)), *past)
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("words", "path", "said"),
    [
        (("submission", "cancel", "12", "--reason", "r"), "submissions/12/cancel", {"reason": "r"}),
        (("submission", "appeal", "12", "look"), "submissions/12/appeal", {"text": "look"}),
        (("auth", "appeal", "look"), "me/appeal", {"text": "look"}),
    ],
)
def test_a_participants_deed_is_one_request(
    words: tuple[str, ...], path: str, said: dict[str, str]
) -> None:
    result, (heard,) = run_against(
        respond_in_turn((202, {"event": "Made", "seq": 7})), *words, "--as", "ada"
    )
    assert (heard.method, heard.path) == ("POST", f"/v1/{path}")
    assert json.loads(heard.body) == said
    assert heard.headers["warpboard-participant"] == "ada"
    assert result.stdout == "done: Made, event 7\n"


SCRUB: dict[str, Any] = {"ended_at": "2026-01-02T03:04:05Z", "ended_seq": 40}
DAMAGED = SCRUB | {"damaged_events": 2, "damaged": [{"first": 6, "last": 7}]}
PLATFORM = {
    "agents": {"items": [HELD]},
    "queue": QUEUE,
    "intake": {"paused": "a new disk"},
    "audit/scrub": DAMAGED,
}


def test_status_says_in_words_what_is_held_back() -> None:
    letters = {"items": [{"consumer": "c", "seq": 1, "reason": "r"}]}
    say = answering(PLATFORM | {"admin/deadletters": letters})
    result, _ = run_against(say, "status", WARPBOARD_OPERATOR_TOKEN="secret-token")
    lines = result.stdout.splitlines()
    assert lines[-7].startswith("the log was compared with its archive until 2026-01-02 03:04")
    assert lines[-7].endswith(": 40 events, damaged")
    assert lines[-6:] == [
        "LOG DAMAGED at events 6 to 7: see docs/operating/log-damaged.md",
        "intake is paused: a new disk",
        "pool CPU is paused: heat",
        "agent a1 is cordoned: drifts",
        "the read models stopped before event 9: no fold",
        "1 event given up by their consumers: warpboard admin deadletter list",
    ]


def test_status_in_json_has_all_of_it() -> None:
    result, _ = run_against(answering(PLATFORM), "status", "--json")
    assert json.loads(result.stdout) == {
        "is_up": True,
        "processes": [],
        "agents": [make_document(Agent, HELD)],
        "queue": [],
        "pools": [make_document(Pool, pool) for pool in (POOL, OTHER)],
        "parked": {"seq": 9, "error": "no fold"},
        "intake_paused": "a new disk",
        "scrub": make_document(LogScrub, DAMAGED),
        "dead_letters": None,
    }


def test_a_status_without_trouble_says_so() -> None:
    calm = {
        "agents": {"items": [AGENT]},
        "queue": {"items": []},
        "intake": {"paused": None},
        "audit/scrub": SCRUB,
    }
    result, _ = run_against(answering(calm), "status")
    *_, scrub, held = result.stdout.splitlines()
    assert scrub.endswith(": 40 events, nothing is wrong")
    assert held == "nothing is paused or held"


@pytest.mark.feature("N6")
def test_the_fastest_at_each_case_are_listed_with_their_places() -> None:
    document: dict[str, Any] = CASE_LEADERBOARDS
    (case,) = document["items"]
    tied = case["items"][0] | {"is_tied": True, "participant": "eve", "number": 13}
    items = [case, case | {"case": "n=2", "items": [tied]}]
    command = ("leaderboard", "cases", "m", "CPU", "--case", "n=1", "--limit", "3", "--wide")
    result, heard = run_against(respond_in_turn((200, document | {"items": items})), *command)
    assert heard[0].path == "/v1/leaderboards/m/CPU/best-times?case=n%3D1&limit=3"
    assert result.stdout.startswith("fastest at each case of m on CPU")
    lines = [line.split() for line in result.stdout.splitlines()[2:]]
    assert lines[0][:3] == ["n=1", "1", "ada"]
    assert lines[1][:3] == ["n=2", "=1", "eve"]
    assert [line[-1] for line in lines[:2]] == ["12", "13"]
    refused, _ = run_against(respond_in_turn(), *command[:-2], "0")
    assert refused.exit_code == 2
