"""A client of NATS that reconnects leaves no socket behind."""

import asyncio
import json

from shared.nats.connection import connect

WAIT_S_MAX = 10.0


class RefusingServer:
    """Greets the first client, breaks off, and refuses it when it comes back."""

    def __init__(self) -> None:
        self.closed: asyncio.Queue[int] = asyncio.Queue()
        self._count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Greet one connection, and note when its client has closed it."""
        self._count += 1
        number = self._count
        host, port = writer.get_extra_info("sockname")
        info = {"server_id": "s", "version": "2.12.0", "headers": True, "max_payload": 1 << 20}
        greeting = json.dumps(info | {"proto": 1, "host": host, "port": port})
        writer.write(f"INFO {greeting}\r\n".encode())
        assert (await reader.readline()).startswith(b"CONNECT ")
        assert await reader.readline() == b"PING\r\n"
        if number == 1:
            writer.write(b"PONG\r\n")
            await writer.drain()
        else:
            writer.write(b"-ERR 'not now'\r\n")
            await reader.read()
            self.closed.put_nowait(number)
        writer.close()
        await writer.wait_closed()


async def test_a_refused_attempt_closes_its_socket_before_the_next_one() -> None:
    """Else the garbage collector finds it, and warns in whatever runs then."""
    refusing = RefusingServer()
    server = await asyncio.start_server(refusing.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        client = await connect(f"nats://127.0.0.1:{port}", "test")
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                assert [await refusing.closed.get() for _ in range(2)] == [2, 3]
        finally:
            await client.close()
