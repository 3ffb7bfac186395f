"""One platform for the whole suite: real servers, every service, an agent without a GPU."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.contract_popcorn.polling import HONEST, TOLD, follow_stream
from tests.contract_popcorn.wire import SEEN, Wire, bearer, cli_id
from tests.support.documents import Document
from tests.support.platform import Running

# A line of ada's ranked source, which nobody else may read.
MARK = b"\n# ada alone knows this line\n"
SCOPES = ["submit", "submit:ranked", "profile", "read:own", "delete:own", "join"]


@pytest.fixture(scope="session")
def platform(platform: Running) -> Iterator[Running]:
    """The shared platform; at the end its responses are checked against its document."""
    yield platform
    _compare(Document(httpx.get(f"{platform.url}/v1/openapi.json", timeout=30).json()))


def _compare(document: Document) -> None:
    """Check every response of the suite against the document."""
    for method, target, answer in SEEN:
        media = answer.headers.get("content-type", "")
        document.check((method, target), answer.status, media, answer.body)
    streamed = document.said["paths"]["/{leaderboard}/{gpu}/{mode}"]["post"]["responses"]["200"]
    schema = document.validator(streamed["content"]["text/event-stream"]["x-events"])
    for data in TOLD:
        schema.validate(data)


@pytest.fixture(scope="session")
def admin(platform: Running) -> Wire:
    """A client with the admin token."""
    token = platform.environ("ingest")["WARPBOARD_INGEST_OPERATOR_TOKEN"]
    return Wire(platform.url, bearer(token))


def token_of(platform: Running, name: str) -> str:
    """Return a token of a participant, as the client stores it."""
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
    """The token of a participant."""
    return token_of(platform, "ada")


@pytest.fixture(scope="session")
def ada(platform: Running, ada_token: str) -> Wire:
    """A participant, with the client's own header."""
    return Wire(platform.url, cli_id(ada_token))


@pytest.fixture(scope="session")
def grace(platform: Running) -> Wire:
    """Another participant."""
    return Wire(platform.url, cli_id(token_of(platform, "grace")))


class Ranked(NamedTuple):
    """A ranked submission of ada, and the stream that followed it."""

    number: int
    told: list[tuple[str, Any]]


@pytest.fixture(scope="session")
def ranked(ada: Wire) -> Ranked:
    """One for all tests that only read it, because each takes long."""
    events_ = follow_stream(ada, "/Identity/CPU/LEADERBOARD", HONEST + MARK, size=1021)
    assert events_[-1][0] == "result", events_[-1]
    return Ranked(events_[-1][1]["submission_id"], events_)


@pytest.fixture(scope="session")
def nobody(platform: Running) -> Wire:
    """A client without a credential."""
    return Wire(platform.url)
