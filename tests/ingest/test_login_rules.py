"""The rules of logins that wait, and how often anybody may try."""

from datetime import UTC, datetime, timedelta

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from hypothesis import given
from hypothesis import strategies as st

from ingest.http.attempts import AttemptLimiter
from ingest.identity.caller import Caller
from ingest.identity.login.rules import (
    USER_CODE_LETTERS,
    CliLogin,
    DeviceLogin,
    candidate_names,
    check_approved,
    check_cli,
    check_device,
    check_holds_scopes,
    check_password,
    coarse_network,
    format_code,
    local_path,
    normalize_code,
    parse_scopes,
)
from ingest.identity.login.service import new_user_code
from ingest.identity.login.sign_in import Argon2Hasher
from ingest.identity.secrets import derive_token, new_secret
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


def test_an_id_can_be_linked_until_it_expires() -> None:
    assert check_cli(ASKED, "a-1", is_live=False, at=SOON) is ASKED
    assert code(lambda: check_cli(ASKED, "a-1", is_live=False, at=LATE)) == "cli_id_expired"


def test_an_id_is_not_linked_to_two_participants() -> None:
    linked = CliLogin("github", "198.51.100.0/24", NOW, LATE, "a-1")
    assert check_cli(linked, "a-1", is_live=True, at=LATE) is linked
    assert code(lambda: check_cli(linked, "a-2", is_live=True, at=SOON)) == "cli_id_taken"


def test_a_revoked_id_cannot_be_linked_again() -> None:
    linked = CliLogin("github", "198.51.100.0/24", NOW, LATE, "a-1")
    assert code(lambda: check_cli(linked, "a-1", is_live=False, at=LATE)) == "cli_id_expired"


def test_an_id_that_was_never_issued_is_unknown() -> None:
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
def test_a_device_gets_the_error_codes_of_the_rfc(
    found: DeviceLogin | None, at: datetime, expected: str
) -> None:
    assert code(lambda: check_approved(found, at)) == expected


def test_a_device_is_answered_once() -> None:
    assert check_device(DEVICE, SOON) is DEVICE
    answered = DeviceLogin("x", (), "x", NOW, LATE, account="a-1")
    assert code(lambda: check_device(answered, SOON)) == "user_code_used"
    assert code(lambda: check_device(DEVICE, LATE)) == "user_code_expired"


def test_nobody_grants_a_device_more_than_they_have() -> None:
    check_holds_scopes(DEVICE, Caller(account="a-1", scopes=frozenset({"submit"})))
    assert code(lambda: check_holds_scopes(DEVICE, Caller(account="a-1"))) == "scope_missing"


def test_a_limited_token_approves_no_device() -> None:
    limited = Caller(scopes=frozenset({"submit"}), problems=frozenset({"copy"}))
    assert code(lambda: check_holds_scopes(DEVICE, limited)) == "scope_missing"


@pytest.mark.parametrize("text", ["root", "submit admin:everything", "x" * 500])
def test_an_unknown_scope_is_refused(text: str) -> None:
    assert code(lambda: parse_scopes(text)) == "invalid_scope"


@given(st.text(max_size=80))
def test_the_next_page_is_always_local(text: str) -> None:
    path = local_path(text)
    assert path.startswith("/")
    assert not path.startswith("//")
    assert "\\" not in path
    assert ":" not in path


@given(st.text(max_size=80))
def test_a_providers_login_becomes_a_valid_name(text: str) -> None:
    from ingest.identity.names import NAME

    assert all(NAME.match(name) for name in candidate_names(text))


@given(st.text(max_size=60))
def test_every_address_has_a_network(text: str) -> None:
    assert coarse_network(text)


@given(st.text(alphabet=USER_CODE_LETTERS, min_size=8, max_size=8))
def test_user_codes_are_normalized(letters: str) -> None:
    displayed = format_code(letters)
    assert normalize_code(displayed) == normalize_code(f" {displayed.lower()} ") == letters


@pytest.mark.parametrize("password", ["short", "a" * 12, "adalovelace", "x" * 201])
def test_a_weak_password_is_refused(password: str) -> None:
    assert code(lambda: check_password(password, "adalovelace")) == "bad_password"


def test_verifying_against_no_hash_takes_the_parameters_of_others() -> None:
    cheap = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    for argon in (PasswordHasher(), cheap):
        assert not argon.check_needs_rehash(Argon2Hasher(argon)._dummy_hash)
    # Another error would come at once.
    with pytest.raises(VerifyMismatchError):
        cheap.verify(Argon2Hasher(cheap)._dummy_hash, "a password")


def test_secrets_are_long_and_url_safe() -> None:
    assert len({new_secret() for _ in range(100)}) == 100
    assert all(
        len(secret) == 43 and secret.isascii() for secret in (new_secret() for _ in range(10))
    )
    assert set(new_user_code()) <= set(USER_CODE_LETTERS)
    assert derive_token("code") == derive_token("code") != derive_token("other")
    assert len(derive_token("code")) == len("wb_") + 43


def test_attempts_are_counted_per_key() -> None:
    tries = AttemptLimiter("2/minute", "tries")
    tries.take("ada")
    tries.take("ada")
    with pytest.raises(Refused, match="too many tries") as refused:
        tries.take("ada")
    assert refused.value.code == "rate_limited"
    assert 0 < (refused.value.retry_after_s or 0) <= 60
    tries.take("grace")
    tries.forgive("ada")
    tries.take("ada")
