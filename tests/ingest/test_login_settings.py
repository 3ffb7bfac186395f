"""Ways to log in that could not work are refused at the start."""

import pytest

from shared.errors import Refused
from tests.ingest.test_settings import loaded


def test_the_public_url_defaults_to_the_listen_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(monkeypatch).public_base == "http://127.0.0.1:1"
    settings = loaded(monkeypatch, PUBLIC_URL="https://kernels.example.org/")
    assert settings.public_base == "https://kernels.example.org"
    assert not settings.web_signup


@pytest.mark.parametrize(
    "url", ["kernels.example.org", "http://kernels.example.org", "https://", "https://a.b/?c"]
)
def test_a_public_url_that_breaks_logins_is_refused(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    with pytest.raises(Refused, match="WARPBOARD_INGEST_PUBLIC_URL is"):
        loaded(monkeypatch, PUBLIC_URL=url)


@pytest.mark.parametrize("name", ["GITHUB_CLIENT_ID", "DISCORD_CLIENT_SECRET"])
def test_a_client_id_without_secret_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(Refused, match="belong together"):
        loaded(monkeypatch, **{name: "half"})


def test_a_providers_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"GITHUB_CLIENT_ID": "ours", "GITHUB_CLIENT_SECRET": "very-own-secret"}
    assert "very-own-secret" not in repr(loaded(monkeypatch, **variables))
