"""A model's endpoint over real HTTP: what is sent, what is asked again, and what is hidden."""

from itertools import pairwise

import pytest

from shared.errors import Failed, Refused
from tests.cli.model_server import PATH, Answer, ModelServer, complete, run_model_server
from warpboard import model_endpoint
from warpboard.model_endpoint import ATTEMPTS, Completion, open_endpoint
from warpboard.optimiser_files import Message

KEY = "sk-hidden-4711"
PROMPT = (Message("system", "You write kernels."), Message("user", "Write one."))
BUSY = Answer(429, {"error": {"message": f"{KEY} asks too often"}}, {"retry-after": "1"})
BROKEN = Answer(500, {"error": {"message": "out of memory"}})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_endpoint, "PAUSE_S", 0.01)


async def ask(server: ModelServer, key: str = KEY) -> Completion:
    async with open_endpoint(server.url, "small", 77, key) as endpoint:
        return await endpoint.complete(PROMPT)


async def test_a_request_is_repeated_after_429_and_500_and_a_lost_connection() -> None:
    lost = Answer(200, b"", is_cut=True)
    with run_model_server(BUSY, BROKEN, lost, complete("Faster.", 12)) as server:
        assert await ask(server) == Completion("Faster.", 12)
    assert [asked.path for asked in server.asked] == [PATH] * ATTEMPTS
    waits = [second.at - first.at for first, second in pairwise(server.asked)]
    assert waits[0] >= 1
    messages = [{"role": message.role, "content": message.content} for message in PROMPT]
    for asked in server.asked:
        assert asked.body == {"model": "small", "messages": messages, "max_tokens": 77}
        named = {name for name, value in asked.headers.items() if KEY in value}
        assert (named, asked.headers["authorization"]) == ({"authorization"}, f"Bearer {KEY}")


async def test_without_a_key_none_is_sent() -> None:
    with run_model_server(complete("x = 1")) as server:
        assert await ask(server, "") == Completion("x = 1", 0)
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize(
    ("answer", "error", "message", "count"),
    [
        (BROKEN, Failed, "no answer in 4 attempts: 500", ATTEMPTS),
        (Answer(401, {"error": f"wrong key {KEY}"}), Refused, "set the endpoint's key in", 1),
        (Answer(404, {"error": f"no model for {KEY}"}), Refused, "check --endpoint and", 1),
        (Answer(307, b"", {"location": "http://127.0.0.1:1/v1"}), Refused, "answered 307", 1),
        (Answer(200, f"<p>{KEY}</p>".encode()), Failed, "not with a chat completion", 1),
        (Answer(200, {"choices": []}), Failed, "not with a chat completion", 1),
        (Answer(200, b'{"choices": "\xff'), Failed, "not with a chat completion", 1),
    ],
)
async def test_what_cannot_be_used_is_an_error_without_the_key(
    answer: Answer, error: type[Exception], message: str, count: int
) -> None:
    with run_model_server(answer) as server, pytest.raises(error, match=message) as raised:
        await ask(server)
    assert len(server.asked) == count
    assert KEY not in str(raised.value)


async def test_an_answer_that_repeats_the_key_comes_without_it() -> None:
    with run_model_server(complete(f"# {KEY}\nx = 1\n", 3)) as server:
        assert await ask(server) == Completion("# [key]\nx = 1\n", 3)


async def test_an_endpoint_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_endpoint, "COMPLETION_S_MAX", 0.0)
    message = "no answer in 4 attempts: no answer within 0 s"
    with run_model_server(complete("late")) as server, pytest.raises(Failed, match=message):
        await ask(server)


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines"])
async def test_a_key_that_no_header_can_have_is_refused(key: str) -> None:
    message = "has characters that a header cannot have"
    with (
        run_model_server(complete("x")) as server,
        pytest.raises(Refused, match=message) as raised,
    ):
        await ask(server, key)
    assert not server.asked
    assert key not in str(raised.value)
