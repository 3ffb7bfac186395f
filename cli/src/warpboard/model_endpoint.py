"""A model behind an OpenAI-compatible endpoint: it answers chat completions over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from shared.errors import Failed, Refused
from warpboard.optimiser_files import Message

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "WARPBOARD_MODEL_KEY"
COMPLETION_S_MAX = 300.0
CONNECT_S_MAX = 10.0
COMPLETION_BYTES_MAX = 8 * 1024 * 1024
ATTEMPTS = 4
PAUSE_S, PAUSE_S_MAX = 0.5, 60.0
REASON_CHARS_MAX = 300
_RETRIED = (408, 409, 429, 500, 502, 503, 504)
_HIDDEN = "[key]"


class Completion(msgspec.Struct, frozen=True):
    """What a model answered, and how many tokens the question and the answer took."""

    text: str
    tokens: int = 0


class _AnswerMessage(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _AnswerMessage


class _Usage(msgspec.Struct):
    total_tokens: int = 0


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


class _RetryableError(Exception):
    """The endpoint may answer if it is asked again, after `wait_s` if it says so."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class ModelEndpoint:
    """A model that completes chats. The key is sent to the endpoint, and nowhere else."""

    def __init__(
        self, client: "httpx.AsyncClient", url: str, model: str, tokens_max: int, key: str
    ) -> None:
        self.model = model
        self._client, self._url, self._tokens_max, self._key = client, url, tokens_max, key

    async def complete(self, messages: Sequence[Message]) -> Completion:
        """Return the model's answer.

        Raises Refused if the request is wrong, and Failed if no attempt is answered.
        """
        for attempt in range(ATTEMPTS):
            try:
                return await self._ask(messages)
            except _RetryableError as error:
                if attempt == ATTEMPTS - 1:
                    reason = f"no answer in {ATTEMPTS} attempts: {error}"
                    raise Failed(f"--endpoint {self._url}: {reason}") from error
                pause_s = max(error.wait_s, PAUSE_S * 2**attempt)
            await asyncio.sleep(min(pause_s, PAUSE_S_MAX))
        raise AssertionError

    async def _ask(self, messages: Sequence[Message]) -> Completion:
        import httpx

        body = {
            "model": self.model,
            "messages": msgspec.to_builtins(messages),
            "max_tokens": self._tokens_max,
        }
        try:
            async with (
                asyncio.timeout(COMPLETION_S_MAX),
                self._client.stream("POST", f"{self._url}/chat/completions", json=body) as response,
            ):
                data = await _read(response)
        except TimeoutError as error:
            raise _RetryableError(f"no answer within {COMPLETION_S_MAX:.0f} s") from error
        except httpx.TransportError as error:
            raise _RetryableError(self._hide(str(error) or type(error).__name__)) from error
        if not response.is_success:
            raise self._explain(response, data)
        try:
            answer = msgspec.json.decode(data, type=_Answer)
            text = answer.choices[0].message.content or ""
        except (msgspec.MsgspecError, UnicodeDecodeError, IndexError) as error:
            reason = f"it answered, but not with a chat completion: {error!r}"
            raise Failed(f"--endpoint {self._url}: {self._hide(reason)}") from error
        return Completion(self._hide(text), answer.usage.total_tokens if answer.usage else 0)

    def _explain(self, response: "httpx.Response", data: bytes) -> Exception:
        text = self._hide(data.decode(errors="replace"))[:REASON_CHARS_MAX]
        reason = f"{response.status_code} {text}".strip()
        if response.status_code in _RETRIED:
            wait = response.headers.get("retry-after", "")
            return _RetryableError(reason, float(wait) if wait.isdecimal() else 0.0)
        fix = "check --endpoint and --model"
        if response.status_code in (401, 403):
            fix = f"set the endpoint's key in {KEY_VARIABLE}"
        return Refused("bad_endpoint", f"--endpoint {self._url} answered {reason}: {fix}", None)

    def _hide(self, text: str) -> str:
        """Return a text of the endpoint without the key, which it may repeat."""
        return text.replace(self._key, _HIDDEN) if self._key else text


async def _read(response: "httpx.Response") -> bytes:
    data = b""
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > COMPLETION_BYTES_MAX:
            raise Failed(f"the endpoint's answer has over {COMPLETION_BYTES_MAX:,} bytes")
    return data


@asynccontextmanager
async def open_endpoint(
    url: str, model: str, tokens_max: int, key: str
) -> AsyncIterator[ModelEndpoint]:
    """Open a model for as long as the context lasts; redirects are not followed.

    Raises Refused if the key cannot be in a header.
    """
    import httpx

    if not (key.isascii() and key.isprintable()):
        reason = f"{KEY_VARIABLE} has characters that a header cannot have: copy the key again"
        raise Refused("bad_settings", reason, KEY_VARIABLE)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = httpx.Timeout(COMPLETION_S_MAX, connect=CONNECT_S_MAX)
    async with httpx.AsyncClient(headers=headers, timeout=timeout) as client:
        yield ModelEndpoint(client, url, model, tokens_max, key)
