"""The rules of logins that wait, and how often anybody may try."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.domain.callers import Caller
from ingest.login.domain import (
    USER_CODE_LETTERS,
    CliLogin,
    DeviceLogin,
    asked_scopes,
    check_answered,
    check_cli,
    check_device,
    check_granted,
    check_password,
    free_names,
    local_path,
    network_of,
    plain_code,
    shown_code,
)
from ingest.login.service.secret import drawn, drawn_code, token_of
from ingest.service.tries import Tries
from shared.errors import Refused

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SOON, LATE = NOW + timedelta(minutes=5), NOW + timedelta(minutes=10)
ASKED = CliLogin("github", "198.51.100.0/24", NOW, LATE)
DEVICE = DeviceLogin("laptop", ("submit",), "198.51.100.0/24", NOW, LATE)


def code(question: object) -> str:
    """The code with which this is refused."""
    with pytest.raises(Refused) as refused:
        question()  # type: ignore[operator]
    return refused.value.code


def test_an_unlinked_id_may_be_linked_until_it_expires() -> None:
    assert check_cli(ASKED, "a-1", is_live=False, at=SOON) is ASKED
    assert code(lambda: check_cli(ASKED, "a-1", is_live=False, at=LATE)) == "cli_id_expired"


def test_an_id_is_not_linked_to_two_people() -> None:
    linked = CliLogin("github", "198.51.100.0/24", NOW, LATE, "a-1")
    assert check_cli(linked, "a-1", is_live=True, at=LATE) is linked
    assert code(lambda: check_cli(linked, "a-2", is_live=True, at=SOON)) == "cli_id_taken"


def test_a_revoked_id_does_not_come_back_by_linking_it_late() -> None:
    linked = CliLogin("github", "198.51.100.0/24", NOW, LATE, "a-1")
    assert code(lambda: check_cli(linked, "a-1", is_live=False, at=LATE)) == "cli_id_expired"


def test_an_id_that_was_never_given_out_is_unknown() -> None:
    assert code(lambda: check_cli(None, "a-1", is_live=False, at=SOON)) == "unknown_cli_id"


@pytest.mark.parametrize(
    ("found", "at", "expected"),
    [
        (None, SOON, "invalid_grant"),
        (DEVICE, SOON, "authorization_pending"),
        (DEVICE, LATE, "expired_token"),
        (DeviceLogin("x", (), "x", NOW, LATE, is_denied=True), SOON, "access_denied"),
    ],
)
def test_a_device_is_told_in_the_words_of_the_standard(
    found: DeviceLogin | None, at: datetime, expected: str
) -> None:
    assert code(lambda: check_answered(found, at)) == expected


def test_a_device_is_answered_once() -> None:
    assert check_device(DEVICE, SOON) is DEVICE
    answered = DeviceLogin("x", (), "x", NOW, LATE, account="a-1")
    assert code(lambda: check_device(answered, SOON)) == "user_code_used"
    assert code(lambda: check_device(DEVICE, LATE)) == "user_code_expired"


def test_nobody_gives_a_device_more_than_they_have() -> None:
    check_granted(DEVICE, Caller(account="a-1", scopes=frozenset({"submit"})))
    assert code(lambda: check_granted(DEVICE, Caller(account="a-1"))) == "scope_missing"


def test_a_token_for_some_problems_makes_none_for_all() -> None:
    limited = Caller(scopes=frozenset({"submit"}), problems=frozenset({"copy"}))
    assert code(lambda: check_granted(DEVICE, limited)) == "scope_missing"


@pytest.mark.parametrize("text", ["root", "submit admin:everything", "x" * 500])
def test_a_scope_that_is_none_is_refused(text: str) -> None:
    assert code(lambda: asked_scopes(text)) == "invalid_scope"


@given(st.text(max_size=80))
def test_a_page_to_go_on_to_is_always_ours(text: str) -> None:
    path = local_path(text)
    assert path.startswith("/")
    assert not path.startswith("//")
    assert "\\" not in path
    assert ":" not in path


@given(st.text(max_size=80))
def test_a_name_from_elsewhere_becomes_one_of_ours(text: str) -> None:
    from ingest.domain.accounts import NAME

    assert all(NAME.match(name) for name in free_names(text))


@given(st.text(max_size=60))
def test_any_address_has_a_network_to_show(text: str) -> None:
    assert network_of(text)


@given(st.text(alphabet=USER_CODE_LETTERS, min_size=8, max_size=8))
def test_a_code_is_read_however_it_is_typed(letters: str) -> None:
    shown = shown_code(letters)
    assert plain_code(shown) == plain_code(f" {shown.lower()} ") == letters


@pytest.mark.parametrize("password", ["short", "a" * 12, "adalovelace", "x" * 201])
def test_a_password_that_is_guessed_at_once_is_refused(password: str) -> None:
    assert code(lambda: check_password(password, "adalovelace")) == "bad_password"


def test_secrets_are_long_and_legal_everywhere() -> None:
    assert len({drawn() for _ in range(100)}) == 100
    assert all(len(one) == 43 and one.isascii() for one in (drawn() for _ in range(10)))
    assert set(drawn_code()) <= set(USER_CODE_LETTERS)
    assert token_of("code") == token_of("code") != token_of("other")
    assert len(token_of("code")) == len("wb_") + 43


def test_tries_run_out_for_each_key_alone() -> None:
    tries = Tries("2/minute", "tries")
    tries.take("ada")
    tries.take("ada")
    with pytest.raises(Refused, match="too many tries") as refused:
        tries.take("ada")
    assert refused.value.code == "rate_limited"
    assert 0 < (refused.value.retry_after_s or 0) <= 60
    tries.take("grace")
    tries.forgive("ada")
    tries.take("ada")
