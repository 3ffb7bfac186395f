"""Connecting to a NATS server, and refusing unsuitable ones."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from shared.errors import Failed
from shared.nats.connection import connect
from shared.servers.nats import NatsServer
from tests.support.waits import eventually


@pytest.fixture
async def old_server() -> AsyncIterator[str]:
    """Serve as much of NATS as a client needs before its first request."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"version": "2.9.10", "max_payload": 1024, "headers": True}
        writer.write(b"INFO %s\r\n" % json.dumps(info).encode())
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_old_server_is_refused_with_a_sentence(old_server: str) -> None:
    with pytest.raises(Failed, match=r"NATS server 2\.9 is too old"):
        await connect(old_server, "test")


async def test_an_absent_server_is_named_without_its_password() -> None:
    with pytest.raises(Failed, match="localhost:1 let test in") as caught:
        await connect("nats://ada:secret@localhost:1", "test", within_s=0.3)
    assert "secret" not in str(caught.value)


async def test_a_first_answer_at_the_end_of_the_time_is_too_late() -> None:
    greetings = 0

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal greetings
        greetings += 1
        if greetings == 1:
            # The loop stands still until the answer and the end of the time come together.
            time.sleep(0.4)  # noqa: ASYNC251
        writer.write(b'INFO {"version": "2.12.0", "max_payload": 1024, "headers": true}\r\n')
        await reader.readline()
        writer.write(b"-ERR 'Authorization Violation'\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(10):
        with pytest.raises(Failed, match="let test in"):
            await connect(f"nats://127.0.0.1:{port}", "test", within_s=0.3)


@pytest.mark.server
async def test_the_end_of_a_connection_is_told_once(own_nats: NatsServer) -> None:
    calls: list[str] = []
    nc = await connect(own_nats.login(), "test", closed=lambda: calls.append("closed"))
    own_nats.kill()
    await eventually(lambda: nc.is_reconnecting)
    own_nats.start()
    await eventually(lambda: nc.is_connected)
    assert calls == []
    await nc.close()
    assert calls == ["closed"]


@pytest.mark.server
async def test_answers_come_back_under_the_name_of_the_user(own_nats: NatsServer) -> None:
    nc = await connect(own_nats.login(), "test")
    assert nc.new_inbox().startswith("_INBOX_maintenance.")
    await nc.close()


@pytest.mark.server
async def test_only_a_lost_connection_is_called_lost(
    own_nats: NatsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = await connect(own_nats.login(), "lost")
    closed = await connect(own_nats.login(), "closed")
    await closed.close()
    own_nats.kill()
    await eventually(lambda: not lost.is_connected)
    await lost.close()
    logged = capsys.readouterr().err
    assert "lost lost its connection to NATS" in logged
    assert "closed lost its connection" not in logged
