"""A server that speaks the protocol of OpenAI's chat completions, and answers as it is told."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

PATH = "/v1/chat/completions"


class Answer(NamedTuple):
    """A status with a body; `is_cut` ends the connection without an answer."""

    status: int
    body: Any
    headers: Mapping[str, str] = {}
    is_cut: bool = False


class Asked(NamedTuple):
    """A request that arrived."""

    at: float
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class ModelServer:
    """Gives one answer after the other, then the last one again."""

    answers: list[Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)


def complete(text: str, tokens: int = 0) -> Answer:
    """Return a chat completion, with all that OpenAI's API documents for it."""
    message = {"role": "assistant", "content": text, "refusal": None}
    usage = {"prompt_tokens": 1, "completion_tokens": tokens - 1, "total_tokens": tokens}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "small",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
    }
    return Answer(200, body | ({"usage": usage} if tokens else {}))


@contextmanager
def run_model_server(*answers: Answer) -> Iterator[ModelServer]:
    """Run a server on a free port for as long as the context lasts."""
    model = ModelServer(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            model.asked.append(Asked(time.monotonic(), self.path, headers, json.loads(data)))
            answer = model.answers[min(len(model.asked), len(model.answers)) - 1]
            if answer.is_cut:
                return
            body = answer.body
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
