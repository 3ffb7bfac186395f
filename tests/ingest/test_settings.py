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
}
TOKEN = "sixteen-letters!"


def loaded(monkeypatch: pytest.MonkeyPatch, **more: str) -> settings.Settings:
    for name, value in (GIVEN | more).items():
        monkeypatch.setenv(f"WARPBOARD_INGEST_{name}", value)
    return settings.load()


def test_no_token_is_no_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(monkeypatch).operator_token == ""


def test_a_token_is_read_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, OPERATOR_TOKEN=TOKEN)
    assert found.operator_token == TOKEN
    assert TOKEN not in repr(found)


@pytest.mark.parametrize("token", ["short", "sixteen letters!", "шестнадцать-букв"])
def test_a_token_that_cannot_be_sent_is_refused(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    with pytest.raises(Refused, match="WARPBOARD_INGEST_OPERATOR_TOKEN is no token"):
        loaded(monkeypatch, OPERATOR_TOKEN=token)


def test_it_listens_on_this_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="WARPBOARD_INGEST_LISTEN"):
        loaded(monkeypatch, LISTEN="0.0.0.0:1")
