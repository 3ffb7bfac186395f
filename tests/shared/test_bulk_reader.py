"""What the bare reader says it has read, when the server ends it in the middle of a chunk."""

import socket
import threading

import pytest

from shared.bus_keys.login import BusLogin
from shared.nats.segments import RawEvent
from shared.nats.subprocess_feed import BulkReader

ENDS = {
    "an error": b"-ERR 'slow consumer'\r\n",
    "a status": b"HMSG inbox 1 25 25\r\nNATS/1.0 408 Timeout\r\n\r\n.\r\n",
    "a gap": b"MSG events.job.j1 1 $JS.ACK.EVENTS.c.1.9.9.1795235741960636763.4 2\r\n{}\r\n",
}


def message(seq: int) -> bytes:
    reply = f"$JS.ACK.EVENTS.c.1.{seq}.{seq}.1795235741960636763.4"
    return f"MSG events.job.j1 1 {reply} 2\r\n{{}}\r\n".encode()


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_it_counts_no_event_that_it_did_not_pass_on(end: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"INFO {}\r\n")
            connection.recv(65536)
            connection.sendall(message(1) + message(2) + end)
            connection.settimeout(10)
            while connection.recv(65536):
                pass

    server = threading.Thread(target=serve)
    server.start()
    passed_on: list[RawEvent] = []
    reader = BulkReader(BusLogin("nats://127.0.0.1"), listener.getsockname(), "c", "inbox", 0)
    reader.read(lambda events, _: passed_on.extend(events))
    server.join(10)
    listener.close()
    assert reader.last == len(passed_on)
