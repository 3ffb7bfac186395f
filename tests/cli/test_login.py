"""Logging in and out: which token is asked for, tried, kept, and sent to whom."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.command_runner import PROGRAM, environment
from tests.cli.stand_in import ReceivedRequest, Respond, StandIn, respond_in_turn, run_stand_in

TOKEN = "wb_" + "x" * 43
DEVICE = {
    "device_code": "d1",
    "user_code": "BCDF-GHJK",
    "verification_uri": "https://h/device",
    "expires_in": 60,
    "interval": 0.2,
}
PENDING = {"error": "authorization_pending", "detail": "not yet"}
GRANTED = {"access_token": TOKEN, "expires_in": 60, "participant": "ada"}
ME = {"name": "ada", "scopes": ["submit"], "token": 31}


def device(*polls: tuple[int, Any]) -> Respond:
    """A platform that answers the device's questions in turn."""
    left = list(polls)

    def say(heard: ReceivedRequest) -> tuple[int, Any]:
        if heard.path == "/v1/auth/device":
            return 200, DEVICE
        if heard.path == "/v1/auth/device/token":
            return left.pop(0) if len(left) > 1 else left[0]
        return 200, ME

    return say


def run(home: Path, *words: object, stdin: str = "", **environ: str) -> Result:
    """A command of somebody whose tokens lie in a home of their own."""
    variables = environment({"HOME": str(home)} | environ)
    return CliRunner().invoke(PROGRAM, [str(word) for word in words], env=variables, input=stdin)


def kept(home: Path) -> Path:
    return home / ".config" / "warpboard" / "credentials.toml"


def logged_in(home: Path, standin: StandIn) -> Result:
    return run(home, "login", "--token", "-", "--url", standin.url, stdin=f"{TOKEN}\n")


def test_a_login_shows_its_code_waits_and_keeps_the_token(tmp_path: Path) -> None:
    with run_stand_in(device((400, PENDING), (200, GRANTED))) as standin:
        result = run(tmp_path, "login", "--url", standin.url, "--scope", "submit")
    assert result.exit_code == 0, result.output
    assert "BCDF-GHJK" in result.stderr
    assert result.stdout == f"logged in to {standin.url} as ada\n"
    assert TOKEN not in result.output
    assert json.loads(standin.heard[0].body)["scope"] == "submit"
    assert standin.heard[-1].headers["authorization"] == f"Bearer {TOKEN}"
    assert kept(tmp_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("code", ["access_denied", "expired_token"])
def test_a_login_that_is_not_allowed_keeps_nothing(tmp_path: Path, code: str) -> None:
    with run_stand_in(device((400, {"error": code, "detail": "no"}))) as standin:
        result = run(tmp_path, "login", "--url", standin.url)
    assert result.exit_code == 2
    assert "no login" in result.stderr
    assert not kept(tmp_path).exists()


def test_a_login_that_is_never_answered_ends(tmp_path: Path) -> None:
    with run_stand_in(device((400, PENDING))) as standin:
        standin.say = respond_in_turn((200, DEVICE | {"expires_in": 0.3}), (400, PENDING))
        result = run(tmp_path, "login", "--url", standin.url, "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["error"]["code"] == "failed"


def test_a_token_is_never_taken_from_the_command_line(tmp_path: Path) -> None:
    result = run(tmp_path, "login", "--token", TOKEN, "--url", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "stdin" in result.stderr


def test_a_token_that_the_platform_does_not_know_is_not_kept(tmp_path: Path) -> None:
    refusal = {"detail": "unknown token", "code": "invalid_credential"}
    with run_stand_in(respond_in_turn((401, refusal))) as standin:
        result = logged_in(tmp_path, standin)
    assert result.exit_code == 2
    assert not kept(tmp_path).exists()


def test_a_kept_token_goes_to_its_own_platform_alone(tmp_path: Path) -> None:
    with (
        run_stand_in(respond_in_turn((200, ME))) as first,
        run_stand_in(respond_in_turn((200, ME))) as second,
    ):
        assert logged_in(tmp_path, first).exit_code == 0
        for item in (first, second):
            run(tmp_path, "auth", "status", "--url", item.url)
    assert first.heard[-1].headers["authorization"] == f"Bearer {TOKEN}"
    assert "warpboard-participant" not in first.heard[-1].headers
    assert "authorization" not in second.heard[-1].headers


def test_the_environments_token_wins_and_stays_with_its_platform(tmp_path: Path) -> None:
    with (
        run_stand_in(respond_in_turn((200, ME))) as first,
        run_stand_in(respond_in_turn((200, ME))) as second,
    ):
        logged_in(tmp_path, first)
        variables = {"WARPBOARD_TOKEN": "wb_other", "WARPBOARD_URL": first.url}
        run(tmp_path, "auth", "status", **variables)
        run(tmp_path, "auth", "status", "--url", second.url, **variables)
    assert first.heard[-1].headers["authorization"] == "Bearer wb_other"
    assert "authorization" not in second.heard[-1].headers


def test_who_is_named_is_asked_for_by_name(tmp_path: Path) -> None:
    with run_stand_in(respond_in_turn((200, ME))) as standin:
        logged_in(tmp_path, standin)
        run(tmp_path, "auth", "status", "--as", "grace", "--url", standin.url)
    heard = standin.heard[-1].headers
    assert heard["warpboard-participant"] == "grace"
    assert "authorization" not in heard


def test_an_operator_may_use_a_token_of_their_own(tmp_path: Path) -> None:
    with run_stand_in(respond_in_turn((200, ME), (200, {"event": "Made", "seq": 7}))) as standin:
        logged_in(tmp_path, standin)
        words = ("admin", "intake", "pause", "--reason", "r", "--url", standin.url)
        assert run(tmp_path, *words).exit_code == 0
    assert standin.heard[-1].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_logout_revokes_the_token_and_forgets_it(tmp_path: Path) -> None:
    with run_stand_in(respond_in_turn((200, ME))) as standin:
        logged_in(tmp_path, standin)
        result = run(tmp_path, "logout", "--url", standin.url)
        again = run(tmp_path, "logout", "--url", standin.url)
    assert "revoked" in result.stdout
    revoked = [request for request in standin.heard if request.method == "DELETE"]
    assert [item.path for item in revoked] == ["/v1/tokens/31"]
    assert "no token" in again.stdout
    assert TOKEN not in kept(tmp_path).read_text()


def test_a_logout_forgets_even_where_nobody_answers(tmp_path: Path) -> None:
    with run_stand_in(respond_in_turn((200, ME))) as standin:
        logged_in(tmp_path, standin)
    result = run(tmp_path, "logout", "--url", standin.url)
    assert result.exit_code == 0
    assert "could not be revoked" in result.stderr
    assert TOKEN not in kept(tmp_path).read_text()


@pytest.mark.parametrize("text", ["[", "x = 1\n", '["u"]\nname = "x"\n', "\xff"])
def test_a_file_of_tokens_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    kept(tmp_path).parent.mkdir(parents=True)
    kept(tmp_path).write_text(text, encoding="latin-1")
    result = run(tmp_path, "auth", "status", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "credentials.toml" in result.stderr


def test_without_a_token_one_is_told_how_to_get_one(tmp_path: Path) -> None:
    refusal = {"detail": "say who you are", "code": "missing_credential"}
    with run_stand_in(respond_in_turn((401, refusal))) as standin:
        result = run(tmp_path, "submission", "list", "--url", standin.url)
    assert result.exit_code == 2
    assert "warpboard login" in result.stderr


def test_a_token_that_cannot_be_sent_is_refused_without_a_word_of_it(tmp_path: Path) -> None:
    result = run(tmp_path, "problem", "list", WARPBOARD_TOKEN="wb secret\n")
    assert result.exit_code == 2
    assert "secret" not in result.output
