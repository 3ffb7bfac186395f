"""Settings are read once, frozen, and fail at the start with all mistakes listed."""

from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path

import pytest

from shared.errors import Refused
from shared.settings import BadSettings, Listen, read_settings


@dataclass(frozen=True)
class Settings:
    """One field of each kind."""

    nats_url: str
    listen: Listen
    data: Path | None = None
    attempts: int = 3
    lease_s: float = 1.5
    is_open: bool = False


GOOD = {"APP_NATS_URL": "nats://here", "APP_LISTEN": "127.0.0.1:8000"}


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(Refused) as refused:
        read_settings(Settings, "APP", environ)
    assert refused.value.code == "bad_settings"
    return refused.value.reason


def test_what_is_left_out_has_its_default() -> None:
    assert read_settings(Settings, "APP", GOOD) == Settings(
        "nats://here", Listen("127.0.0.1", 8000)
    )


def test_every_kind_of_field_is_read() -> None:
    variables = {
        "APP_DATA": "/data",
        "APP_ATTEMPTS": "5",
        "APP_LEASE_S": "2",
        "APP_IS_OPEN": "TRUE",
    }
    settings = read_settings(Settings, "APP", GOOD | variables | {"OTHER": "x", "APPLE": "y"})
    assert settings == Settings(
        "nats://here", Listen("127.0.0.1", 8000), Path("/data"), 5, 2.0, is_open=True
    )


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        read_settings(Settings, "APP", GOOD).attempts = 4  # type: ignore[misc]


def test_every_problem_is_told_at_once() -> None:
    bad = {"APP_LISTEN": "8000", "APP_ATTEMPTS": "many", "APP_IS_OPEN": "perhaps"}
    assert refusal(bad).split("; ") == [
        "APP_NATS_URL is missing: set it, for example APP_NATS_URL=nats://127.0.0.1:4222",
        "APP_LISTEN is '8000': expected an address such as 127.0.0.1:8000",
        "APP_ATTEMPTS is 'many': expected an integer",
        "APP_IS_OPEN is 'perhaps': expected true or false",
    ]


def test_what_contradicts_is_told_with_what_is_missing() -> None:
    def check_lease(settings: Settings) -> None:
        if settings.lease_s * settings.attempts > 10:
            raise Refused("bad_settings", "APP_LEASE_S is too long for APP_ATTEMPTS")

    def check_ports(settings: Settings) -> None:
        if settings.listen.port < 1024:
            raise BadSettings(["APP_LISTEN needs root", "APP_LISTEN is a well-known port"])

    bad = {"APP_LISTEN": "127.0.0.1:80", "APP_LEASE_S": "100"}
    with pytest.raises(BadSettings) as refused:
        read_settings(Settings, "APP", bad, (check_lease, check_ports))
    missing, *contradictions = refused.value.problems
    assert missing.startswith("APP_NATS_URL is missing")
    assert contradictions == [
        "APP_LEASE_S is too long for APP_ATTEMPTS",
        "APP_LISTEN needs root",
        "APP_LISTEN is a well-known port",
    ]


def test_an_unknown_setting_names_the_nearest() -> None:
    reason = refusal({**GOOD, "APP_ATEMPTS": "3"})
    assert reason == "APP_ATEMPTS is not a setting; the closest one is APP_ATTEMPTS"


@pytest.mark.parametrize("text", ["", ":1", "host:", "host:65536", "host:-1", "host"])
def test_half_an_address_is_refused(text: str) -> None:
    assert "APP_LISTEN" in refusal({**GOOD, "APP_LISTEN": text})


@pytest.mark.parametrize("text", ["127.0.0.1:0", "[::1]:8000", "host.example:80"])
def test_an_address_is_written_as_it_was_read(text: str) -> None:
    assert str(read_settings(Settings, "APP", {**GOOD, "APP_LISTEN": text}).listen) == text
