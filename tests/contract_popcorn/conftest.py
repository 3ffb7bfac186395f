"""One platform for the whole suite: real servers, every service, an agent without a GPU."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.contract_popcorn.polling import HONEST, TOLD, followed
from tests.contract_popcorn.wire import SEEN, Wire, bearer, cli_id
from tests.support.documents import Document
from tests.support.platform import Running

# A line of ada's ranked source, which nobody else may read.
MARK = b"\n# ada alone knows this line\n"
SCOPES = ["submit", "submit:ranked", "profile", "read:own", "delete:own", "join"]


@pytest.fixture(scope="session")
def platform(platform: Running) -> Iterator[Running]:
    """The shared platform; at the end its answers are compared with its document."""
    yield platform
    _compare(Document(httpx.get(f"{platform.url}/v1/openapi.json", timeout=30).json()))


def _compare(document: Document) -> None:
    """All that was answered here, with what the document says of it."""
    for method, target, answer in SEEN:
        media = answer.headers.get("content-type", "")
        document.check((method, target), answer.status, media, answer.body)
    streamed = document.said["paths"]["/{leaderboard}/{gpu}/{mode}"]["post"]["responses"]["200"]
    schema = document.validator(streamed["content"]["text/event-stream"]["x-events"])
    for data in TOLD:
        schema.validate(data)


@pytest.fixture(scope="session")
def admin(platform: Running) -> Wire:
    """Who has the admin token."""
    token = platform.environ("ingest")["WARPBOARD_INGEST_OPERATOR_TOKEN"]
    return Wire(platform.url, bearer(token))


def token_of(platform: Running, name: str) -> str:
    """A token of a participant, as the client may have it in its file."""
    answer = httpx.post(
        f"{platform.url}/v1/tokens",
        json={"name": "popcorn-cli", "scopes": SCOPES, "expires_in_days": 1},
        headers={"Warpboard-Participant": name},
        timeout=30,
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


@pytest.fixture(scope="session")
def ada_token(platform: Running) -> str:
    """The secret of a participant."""
    return token_of(platform, "ada")


@pytest.fixture(scope="session")
def ada(platform: Running, ada_token: str) -> Wire:
    """A participant, by the client's own header."""
    return Wire(platform.url, cli_id(ada_token))


@pytest.fixture(scope="session")
def grace(platform: Running) -> Wire:
    """Another participant."""
    return Wire(platform.url, cli_id(token_of(platform, "grace")))


class Ranked(NamedTuple):
    """A ranked submission of ada's that stands: its id, and the stream that it was sent by."""

    number: int
    told: list[tuple[str, Any]]


@pytest.fixture(scope="session")
def ranked(ada: Wire) -> Ranked:
    """One for all tests that only look at it, for each takes long."""
    told = followed(ada, "/Identity/CPU/LEADERBOARD", HONEST + MARK, size=1021)
    assert told[-1][0] == "result", told[-1]
    return Ranked(told[-1][1]["submission_id"], told)


@pytest.fixture(scope="session")
def nobody(platform: Running) -> Wire:
    """Who sends no credential."""
    return Wire(platform.url)
