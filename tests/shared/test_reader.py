"""The named reader is trusted only with the shared key."""

import httpx
import pytest
from fastapi import FastAPI, Request

from shared.errors import Refused
from shared.reader import (
    KEY_HEADER,
    READER_HEADER,
    Reader,
    ReaderAuthentication,
    check_key,
    decode_reader,
    encode_reader,
)

KEY = "a-key-of-sixteen-letters"
STAFF = {READER_HEADER: encode_reader(Reader(is_staff=True))}


@pytest.fixture
def client() -> httpx.AsyncClient:
    """A client of an application that reports whether its reader is staff."""
    app = FastAPI()

    @app.get("/v1/moderation")
    @app.get("/internal/submissions/1")
    async def is_staff(request: Request) -> bool:
        """Report whether the reader is staff."""
        return decode_reader(request.headers.get(READER_HEADER)).is_staff

    transport = httpx.ASGITransport(ReaderAuthentication(app, KEY))
    return httpx.AsyncClient(transport=transport, base_url="http://ranker")


async def test_who_shows_the_key_is_believed(client: httpx.AsyncClient) -> None:
    for path in ("/v1/moderation", "/internal/submissions/1"):
        assert (await client.get(path, headers=STAFF | {KEY_HEADER: KEY})).json() is True


@pytest.mark.parametrize("shown", [[], [KEY[:-1]], [""], [KEY, KEY], ["other", KEY]])
async def test_any_other_process_reads_as_anybody(
    client: httpx.AsyncClient, shown: list[str]
) -> None:
    headers = [*STAFF.items(), *((KEY_HEADER, one) for one in shown)]
    assert (await client.get("/v1/moderation", headers=headers)).json() is False
    assert (await client.get("/internal/submissions/1", headers=headers)).status_code == 404


@pytest.mark.parametrize("key", ["", "short", "sixteen letters!", "ä" * 16])
def test_a_key_that_cannot_be_sent_or_is_guessed_is_refused(key: str) -> None:
    with pytest.raises(Refused, match="READER_KEY is invalid"):
        check_key(key, "WARPBOARD_RANKER_READER_KEY")
