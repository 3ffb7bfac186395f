"""What one accepts before one submits, and being known elsewhere no longer."""

import json

import pytest

from tests.cli.command_cases import PROBLEM
from tests.cli.command_runner import run_against
from tests.cli.stand_in import respond_in_turn

DIGEST = "d" * 64
CONSENT = {
    "is_asked": True,
    "file": "C.md",
    "digest": DIGEST,
    "text": "Mine may\nbe shown.\x1b[2J\n",
}
MADE = {"event": "ConsentGiven", "seq": 7}


def test_a_text_is_shown_before_it_is_accepted_by_its_digest() -> None:
    result, heard = run_against(respond_in_turn((200, CONSENT)), "problem", "consent", "m")
    assert result.stdout.splitlines()[0] == "Mine may"
    assert "\x1b" not in result.stdout
    assert "--accept does" in result.stderr
    result, heard = run_against(
        respond_in_turn((200, CONSENT), (200, MADE)), "problem", "consent", "m", "--accept"
    )
    assert [request.method for request in heard] == ["GET", "POST"]
    assert json.loads(heard[1].body) == {"digest": DIGEST}
    assert result.stdout.splitlines()[-1] == "done: ConsentGiven, event 7"


def test_where_nothing_is_asked_nothing_is_accepted() -> None:
    nothing = {"is_asked": False, "is_given": False, "text": ""}
    result, _ = run_against(respond_in_turn((200, nothing)), "problem", "consent", "m")
    assert (result.exit_code, result.stdout) == (0, "m asks you to accept nothing\n")
    result, heard = run_against(
        respond_in_turn((200, nothing)), "problem", "consent", "m", "--accept"
    )
    assert (result.exit_code, len(heard)) == (2, 1)


def test_a_problem_tells_what_one_accepts() -> None:
    result, _ = run_against(respond_in_turn((200, PROBLEM)), "problem", "show", "m")
    assert "licence of submissions: MIT" in result.stdout
    assert "read and accept C.md: warpboard problem consent m" in result.stdout


def test_what_was_accepted_is_taken_back() -> None:
    _, (heard,) = run_against(respond_in_turn((200, MADE)), "problem", "consent", "m", "--withdraw")
    assert (heard.method, heard.path) == ("DELETE", "/v1/problems/m/consent")


@pytest.mark.parametrize(("known_as", "asks"), [("i1", 1), ("github:42", 2)])
def test_an_identity_is_unlinked_by_its_id_or_its_name(known_as: str, asks: int) -> None:
    me = {"name": "ada", "identities": [{"provider": "github", "subject": "42", "id": "i1"}]}
    unlinked = {"event": "IdentityUnlinked", "seq": 7}
    answers = [(200, me), (200, unlinked)][-asks:]
    result, heard = run_against(respond_in_turn(*answers), "auth", "unlink", known_as)
    assert (heard[-1].method, heard[-1].path) == ("DELETE", "/v1/me/identities/i1")
    assert result.stdout == "done: IdentityUnlinked, event 7\n"


def test_an_identity_that_is_not_ones_own_is_not_unlinked() -> None:
    result, heard = run_against(
        respond_in_turn((200, {"name": "ada"})), "auth", "unlink", "github:43"
    )
    assert (result.exit_code, len(heard)) == (2, 1)
    assert "auth status" in result.stderr
