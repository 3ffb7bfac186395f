"""A model that answers from a script, at an endpoint of OpenAI's protocol."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import Any

END_S_MAX = 10.0


class ScriptedModel(ThreadingHTTPServer):
    """Gives the answers in turn, and keeps the prompts that it got."""

    def __init__(self, answers: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = cycle(answers)
        self.prompts: list[str] = []

    @property
    def url(self) -> str:
        """The address that a client's `base_url` names."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the next answer as a completion of a chat."""
        self.prompts.append("\n".join(str(message["content"]) for message in request["messages"]))
        message = {"role": "assistant", "content": next(self.answers)}
        return {
            "id": f"completion-{len(self.prompts)}",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: ScriptedModel

    def do_POST(self) -> None:
        """Answer a chat."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(self.server.answer(request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def scripted_model(*answers: str) -> Iterator[ScriptedModel]:
    """Serve a model until the end of the context."""
    with ScriptedModel(answers) as model:
        thread = threading.Thread(target=model.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            model.shutdown()
            thread.join(END_S_MAX)
