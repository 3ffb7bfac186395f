"""What ingest refuses to start with."""

import pytest

from ingest import settings
from shared.errors import Refused

GIVEN = {
    "NATS_URL": "nats://127.0.0.1:1",
    "POSTGRES_DSN": "host=/tmp",
    "LISTEN": "127.0.0.1:1",
    "OPS_LISTEN": "127.0.0.1:2",
    "RANKER_URL": "http://127.0.0.1:3",
    "READER_KEY": "k" * 16,
}
TOKEN = "sixteen-letters!"


def loaded(monkeypatch: pytest.MonkeyPatch, **more: str) -> settings.Settings:
    for name, value in (GIVEN | more).items():
        monkeypatch.setenv(f"WARPBOARD_INGEST_{name}", value)
    return settings.load()


def test_without_a_token_there_is_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(monkeypatch).operator_token == ""


def test_a_token_is_read_and_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loaded(monkeypatch, OPERATOR_TOKEN=TOKEN)
    assert settings.operator_token == TOKEN
    assert TOKEN not in repr(settings)


@pytest.mark.parametrize("token", ["short", "sixteen letters!", "шестнадцать-букв"])
def test_a_token_that_cannot_be_sent_is_refused(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    with pytest.raises(Refused, match="WARPBOARD_INGEST_OPERATOR_TOKEN is not a token"):
        loaded(monkeypatch, OPERATOR_TOKEN=token)


def test_names_are_not_believed_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not loaded(monkeypatch).names_believed
    assert loaded(monkeypatch).autolink == ""


def test_with_tokens_it_may_listen_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(monkeypatch, LISTEN="0.0.0.0:1").listen.host == "0.0.0.0"


@pytest.mark.parametrize(
    "given", [{"NAMES_BELIEVED": "true"}, {"AUTOLINK": "ada"}, {"WEBHOOKS_LOCAL": "true"}]
)
def test_what_is_for_ones_own_machine_is_allowed_only_on_loopback(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    assert loaded(monkeypatch, **given).listen.host == "127.0.0.1"
    with pytest.raises(Refused, match="WARPBOARD_INGEST_LISTEN is 0"):
        loaded(monkeypatch, LISTEN="0.0.0.0:1", **given)


@pytest.mark.parametrize(
    ("name", "text"), [("RATE_PER_TOKEN", "600"), ("RATE_PER_ADDRESS", "0/minute")]
)
def test_a_rate_that_cannot_be_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    with pytest.raises(Refused, match="expected 600/minute, or nothing"):
        loaded(monkeypatch, **{name: text})
    loaded(monkeypatch, **{name: ""})


@pytest.mark.parametrize("text", ["", "200", "0/hour", "200/fortnight"])
def test_a_limit_on_logins_must_be_a_rate(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    for name in settings.LOGIN_RATES:
        with pytest.raises(Refused, match="expected 200/hour or 60/15 minutes"):
            loaded(monkeypatch, **{name.upper(): text})
        monkeypatch.delenv(f"WARPBOARD_INGEST_{name.upper()}")
    assert loaded(monkeypatch, SIGNUPS_PER_ADDRESS="7/15 minutes").signups_per_address


def test_a_queue_must_admit_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="QUEUED_MAX is 0: expected at least 1"):
        loaded(monkeypatch, QUEUED_MAX="0")
    assert loaded(monkeypatch, QUEUED_MAX="7").queued_max == 7


@pytest.mark.parametrize("text", ["0", "1001"])
def test_the_limit_of_open_submissions_has_a_range(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    with pytest.raises(Refused, match=f"OPEN_MAX is {text}: expected 1 to 1000"):
        loaded(monkeypatch, OPEN_MAX=text)
    assert loaded(monkeypatch, OPEN_MAX="7").open_max == 7
