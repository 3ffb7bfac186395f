"""What the environment and a data directory say."""

import json
from pathlib import Path

import pytest

from shared.errors import Failed, Refused
from warpboard.domain.names import PARTICIPANT
from warpboard.settings import find_token, find_url, read


def state(folder: Path, url: str) -> None:
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"url": url}))


def test_the_environment_names_platform_and_participant() -> None:
    settings = read({"WARPBOARD_URL": "http://h:1/", "WARPBOARD_PARTICIPANT": "ada"})
    assert (settings.url, settings.participant) == ("http://h:1", "ada")


def test_without_a_name_the_account_of_this_machine_counts() -> None:
    settings = read({})
    assert settings.url is None
    assert PARTICIPANT.match(settings.participant)


@pytest.mark.parametrize("url", ["localhost:80", "ftp://h", "http://", "http://h:x", "http://h:0"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="WARPBOARD_URL"):
        read({"WARPBOARD_URL": url})


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="Ada"):
        read({"WARPBOARD_PARTICIPANT": "Ada"})


def test_a_platform_is_found_from_a_folder_below(tmp_path: Path) -> None:
    state(tmp_path / ".warpboard", "http://127.0.0.1:1")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_url(None, below) == "http://127.0.0.1:1"


def test_the_nearest_platform_is_found_first(tmp_path: Path) -> None:
    state(tmp_path / ".warpboard", "http://127.0.0.1:1")
    state(tmp_path / "a" / ".warpboard", "http://127.0.0.1:2")
    assert find_url(None, tmp_path / "a") == "http://127.0.0.1:2"


def test_a_named_folder_is_the_only_one_looked_at(tmp_path: Path) -> None:
    state(tmp_path / ".warpboard", "http://127.0.0.1:1")
    with pytest.raises(Failed, match="no platform runs in"):
        find_url(tmp_path / "other", tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"url": "nowhere"}', "\xff"])
def test_a_state_that_no_platform_wrote_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(Refused, match=r"state\.json"):
        find_url(tmp_path, tmp_path)


def test_the_operators_token_lies_beside_the_platforms_state(tmp_path: Path) -> None:
    assert find_token(tmp_path) is None
    (tmp_path / "operator_token").write_text("secret-token\n")
    assert find_token(tmp_path) == "secret-token"


def test_the_environment_may_have_an_operators_token() -> None:
    assert read({"WARPBOARD_OPERATOR_TOKEN": "secret-token"}).operator_token == "secret-token"
    assert read({"WARPBOARD_OPERATOR_TOKEN": ""}).operator_token is None
