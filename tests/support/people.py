"""What participants and authors do, over HTTP alone."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from shared.clock import new_id
from tests.support.examples import clean_report

PATIENCE_S = 60
# A problem of one size: copy a vector.
REFERENCE = """
import torch


def generate_input(size, seed):
    source = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    return source, torch.zeros(size)


def ref_kernel(data):
    return data[1].copy_(data[0])


def check_implementation(data, output):
    return torch.equal(output, data[0]), "it differs"
"""
HONEST = """
def custom_kernel(data):
    source, output = data[0], data[-1]
    output.copy_(source)
    return output
"""
# The same in C++.
NATIVE = """
#include "warpboard.h"
#include <cstring>

int custom_kernel(const wb_tensor *inputs, int, wb_tensor *outputs, int, const char *, void *) {
    std::memcpy(outputs[0].data, inputs[0].data, wb_numel(&inputs[0]) * sizeof(float));
    return 0;
}
"""

# The timed case of problems/identity is of a size that ranks well; here it should be quick.
LARGE, SMALL = b"4194304", b"65536"
# On a busy machine the harness would measure in five processes instead of three, given the time.
QUICKER = {LARGE: SMALL, b"ranked_timeout: 120": b"ranked_timeout: 6"}


def headers_of(name: str) -> Mapping[str, str]:
    """How a participant is named where names are believed."""
    return {"Warpboard-Participant": name}


def add_problem(
    url: str,
    folder: Path,
    headers: Mapping[str, str] | None = None,
    changes: Mapping[bytes, bytes] = QUICKER,
) -> dict[str, Any]:
    """Publish a folder as a problem, with these changes of its files."""
    named = [
        (path.relative_to(folder).as_posix(), change_text(path.read_bytes(), changes))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "solutions" not in path.parts and "__pycache__" not in path.parts
    ]
    files = [("files", one) for one in named]
    answer = httpx.post(
        f"{url}/v1/problems",
        data={"slug": folder.name, "report": clean_report(folder.name, dict(named))},
        files=files,
        headers=headers or headers_of("author"),
        timeout=30,
    )
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


def change_text(text: bytes, changes: Mapping[bytes, bytes]) -> bytes:
    """Return a text with each key of the changes replaced by its value."""
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


class Person:
    """A participant with patience: what does not answer is asked again for a minute.

    They show `headers`, a token's say; where names are believed, their name is enough.
    """

    def __init__(self, url: str, name: str, headers: Mapping[str, str] | None = None) -> None:
        self.http = httpx.Client(base_url=url, headers=headers or headers_of(name), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.http.close()

    def submit(
        self,
        source: str | bytes,
        mode: str = "test",
        name: str = "kernel.py",
        problem: str = "identity",
    ) -> int:
        """Submit for a problem until it is accepted; the number."""
        headers = {"Idempotency-Key": new_id()}
        data = {"problem": problem, "mode": mode, "gpu": "CPU"}
        body = source.encode() if isinstance(source, str) else source
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                files = {"file": (name, body)}
                answer = self.http.post("/v1/submissions", data=data, files=files, headers=headers)
                if answer.status_code == 202:
                    return int(answer.json()["submissions"][0]["number"])
                assert answer.status_code == 503, answer.text
            except httpx.TransportError:
                pass
            assert time.monotonic() < until, "ingest did not accept anything for a minute"
            time.sleep(0.1)

    def seen(self, number: int) -> dict[str, Any]:
        """The submission as it is now."""
        found: dict[str, Any] = self.http.get(f"/v1/submissions/{number}").json()
        return found

    def why(self, number: int) -> str:
        """What a submission waits for; "" while nobody said it."""
        return str((self.seen(number).get("queue") or {}).get("why") or "")

    def end(self, number: int, within_s: float = PATIENCE_S) -> dict[str, Any]:
        """The submission when it is over."""
        until = time.monotonic() + within_s
        seen: dict[str, Any] = {}
        while not seen.get("is_over"):
            assert time.monotonic() < until, f"not over after {within_s} s: {seen}"
            query = {"after": seen.get("version", -1), "wait_s": 5}
            try:
                answer = self.http.get(f"/v1/submissions/{number}", params=query)
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if answer.status_code == 200:
                seen = answer.json()
            else:
                assert answer.status_code == 503, answer.text
                time.sleep(0.1)
        return seen

    def board(self, problem: str = "identity") -> list[dict[str, Any]]:
        """The entries of a leaderboard."""
        answer = self.http.get(f"/v1/leaderboards/{problem}/CPU")
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items
