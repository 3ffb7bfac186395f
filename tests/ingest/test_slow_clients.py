"""A real ingest serves others while hostile clients send slowly, too much, or nothing at all."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from shared.lifecycle import raise_file_limit
from tests.shared.test_http_connections import connected, half_heads
from tests.support.door import OPERATOR, TOKEN
from tests.support.servers import SharedNats, prepared_database
from tests.support.waits import free_port, until

pytestmark = pytest.mark.server

SOFT_FILES, FILES = 256, 1024
HALF_HEADS = 1100
UPLOADS, UPLOAD_BYTES = 50, 15_000_000
PIECE = b"a" * 65_536
# What an interpreter needs for 50 connections, with much room; the bodies are 715 MiB.
GROWTH_KIB_MAX = 32 * 1024
HEAD_S, BODY_S = 2.0, 2.0
UP_S_MAX = 20.0


class Process(NamedTuple):
    """An ingest that believes no names, and where it answers."""

    pid: int
    url: str

    def kib(self, name: str) -> int:
        """A figure of its memory, as Linux counts it."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    def forget_peak(self) -> None:
        """Let VmHWM begin at what is in use now: the most was in use while it started."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


@contextmanager
def started(
    settings: Mapping[str, str], files: int, log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """An ingest process that may open so many files."""
    prefix = "WARPBOARD_INGEST_"
    environ = {name: text for name, text in os.environ.items() if not name.startswith(prefix)}
    environ |= {f"{prefix}{name}": text for name, text in settings.items()}
    command = [sys.executable, "-P", "-m", "ingest"]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, env=environ, stderr=stderr, start_new_session=True)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (min(files, SOFT_FILES), files))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="module")
def ingest(
    shared_nats: SharedNats, postgres_server_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    """One ingest for all clients of this file; no client changes anything in it."""
    raise_file_limit()
    log = tmp_path_factory.mktemp("ingest") / "log"
    with prepared_database(postgres_server_dsn) as dsn:
        port = free_port()
        settings = {
            "NATS_URL": shared_nats.fresh_url(),
            "POSTGRES_DSN": dsn,
            "LISTEN": f"127.0.0.1:{port}",
            "OPS_LISTEN": f"127.0.0.1:{free_port()}",
            "RANKER_URL": "http://127.0.0.1:1",
            "READER_KEY": "k" * 16,
            "OPERATOR_TOKEN": TOKEN,
            "HEAD_S": str(HEAD_S),
            "BODY_S": str(BODY_S),
            # All come from one address.
            "RATE_PER_ADDRESS": "",
        }
        with started(settings, FILES, log) as process:
            ingest_process = Process(process.pid, f"http://127.0.0.1:{port}")
            until(lambda: asyncio.run(is_well(ingest_process)), UP_S_MAX)
            yield ingest_process


async def is_well(ingest: Process) -> bool:
    """Whether it answers somebody else."""
    async with httpx.AsyncClient() as http:
        try:
            return (await http.get(f"{ingest.url}/health")).status_code == 200
        except httpx.TransportError:
            return False


def upload(path: str, length: int, *headers: str) -> bytes:
    """The head of a multipart request."""
    kind = "Content-Type: multipart/form-data; boundary=b"
    lines = (f"POST {path} HTTP/1.1", "Host: x", kind, f"Content-Length: {length}", *headers)
    return "\r\n".join((*lines, "", "")).encode()


@pytest.mark.long
async def test_half_sent_heads_do_not_block_others(ingest: Process) -> None:
    async with AsyncExitStack() as stack:
        clients = await half_heads(stack, ingest.url, HALF_HEADS)
        assert await is_well(ingest)
        answers = [await client.answer() for client in clients]
        # The oldest gave way, and the others took too long.
        assert {status for status, _ in answers} == {408, 503}
        assert await is_well(ingest)


async def test_uploads_without_a_credential_are_refused_before_they_are_sent(
    ingest: Process,
) -> None:
    ingest.forget_peak()
    before = ingest.kib("VmHWM")
    async with AsyncExitStack() as stack:
        for path in ("/v1/submissions", "/v1/problems", "/copy/H100/test"):
            head = upload(path, 3_000_000)
            client = await stack.enter_async_context(connected(ingest.url, head))
            status, body = await client.answer()
            assert (status, json.loads(body)["code"]) == (401, "missing_credential")

        async def send_all() -> int:
            head = upload("/v1/problems", UPLOAD_BYTES)
            client = await stack.enter_async_context(connected(ingest.url, head))
            for _ in range(UPLOAD_BYTES // len(PIECE)):
                await client.send(PIECE)
            return (await client.answer())[0]

        assert set(await asyncio.gather(*(send_all() for _ in range(UPLOADS)))) == {401}
    assert ingest.kib("VmHWM") - before < GROWTH_KIB_MAX


async def test_bodies_without_a_credential_are_limited(ingest: Process) -> None:
    async with httpx.AsyncClient(base_url=ingest.url) as http:
        answer = await http.post("/v1/tokens", json={"name": "x" * 20_000})
        assert (answer.status_code, answer.json()["code"]) == (401, "missing_credential")
        answer = await http.post("/v1/tokens", json={"name": "x" * 140_000}, headers=OPERATOR)
        assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield b"a" * 10_000

        answer = await http.post("/v1/tokens", content=pieces())
        assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")


async def test_a_slow_body_gets_408(ingest: Process) -> None:
    head = upload("/v1/problems", 100_000, f"Authorization: {OPERATOR['Authorization']}")
    async with connected(ingest.url, head, b"--b\r\n") as client:
        status, body = await client.answer()
        assert (status, json.loads(body)["code"]) == (408, "request_timeout")
    assert await is_well(ingest)


async def test_expect_continue_is_refused_at_once(ingest: Process) -> None:
    head = upload("/v1/problems", UPLOAD_BYTES, "Expect: 100-continue")
    async with connected(ingest.url, head) as client:
        assert (await client.answer())[0] == 401
        assert await client.is_closed()


def test_too_few_files_are_an_error_at_the_start(
    nats_url: str, postgres_dsn: str, tmp_path: Path
) -> None:
    settings = {
        "NATS_URL": nats_url,
        "POSTGRES_DSN": postgres_dsn,
        "LISTEN": f"127.0.0.1:{free_port()}",
        "OPS_LISTEN": f"127.0.0.1:{free_port()}",
        "RANKER_URL": "http://127.0.0.1:1",
        "READER_KEY": "k" * 16,
    }
    with started(settings, 256, tmp_path / "log") as process:
        assert process.wait(UP_S_MAX) == 2
    log = (tmp_path / "log").read_text()
    assert "may open 256 files at once, but needs at least 512" in log
