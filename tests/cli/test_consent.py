"""What one accepts before one submits, and being known elsewhere no longer."""

import json

import pytest

from tests.cli.asked import asked
from tests.cli.standin import in_turn
from tests.cli.tree import PROBLEM

CONSENT = {"is_asked": True, "file": "C.md", "digest": "d1", "text": "Mine may\nbe shown.\x1b[2J\n"}
MADE = {"event": "ConsentGiven", "seq": 7}


def test_a_text_is_shown_before_it_is_accepted_by_its_digest() -> None:
    result, heard = asked(in_turn((200, CONSENT)), "consent", "m")
    assert result.stdout.splitlines()[0] == "Mine may"
    assert "\x1b" not in result.stdout
    assert "--accept does" in result.stderr
    result, heard = asked(in_turn((200, CONSENT), (200, MADE)), "consent", "m", "--accept")
    assert [one.method for one in heard] == ["GET", "POST"]
    assert json.loads(heard[1].body) == {"digest": "d1"}
    assert result.stdout.splitlines()[-1] == "done: ConsentGiven, event 7"


def test_where_nothing_is_asked_nothing_is_accepted() -> None:
    nothing = {"is_asked": False, "is_given": False, "text": ""}
    result, _ = asked(in_turn((200, nothing)), "consent", "m")
    assert (result.exit_code, result.stdout) == (0, "m asks you to accept nothing\n")
    result, heard = asked(in_turn((200, nothing)), "consent", "m", "--accept")
    assert (result.exit_code, len(heard)) == (2, 1)


def test_a_problem_tells_what_one_accepts() -> None:
    result, _ = asked(in_turn((200, PROBLEM)), "problem", "show", "m")
    assert "licence of submissions: MIT" in result.stdout
    assert "read and accept C.md: warpboard consent m" in result.stdout


def test_what_was_accepted_is_taken_back() -> None:
    _, (heard,) = asked(in_turn((200, MADE)), "consent", "m", "--withdraw")
    assert (heard.method, heard.path) == ("DELETE", "/v1/problems/m/consent")


@pytest.mark.parametrize(("known_as", "asks"), [("i1", 1), ("github:42", 2)])
def test_an_identity_is_unlinked_by_its_id_or_its_name(known_as: str, asks: int) -> None:
    me = {"name": "ada", "identities": [{"provider": "github", "subject": "42", "id": "i1"}]}
    unlinked = {"event": "IdentityUnlinked", "seq": 7}
    answers = [(200, me), (200, unlinked)][-asks:]
    result, heard = asked(in_turn(*answers), "unlink", known_as)
    assert (heard[-1].method, heard[-1].path) == ("DELETE", "/v1/me/identities/i1")
    assert result.stdout == "done: IdentityUnlinked, event 7\n"


def test_an_identity_that_is_not_ones_own_is_not_unlinked() -> None:
    result, heard = asked(in_turn((200, {"name": "ada"})), "unlink", "github:43")
    assert (result.exit_code, len(heard)) == (2, 1)
    assert "whoami" in result.stderr
