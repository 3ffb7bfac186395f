"""How long a request's line and headers may be; the parser itself would take them for ever."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Ours are under 4 KiB; servers in front allow 8 to 64 KiB.
HEAD_BYTES_MAX = 64 * 1024
TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
)
SAID = b'{"detail":"the request has too many or too long headers","code":"headers_too_large"}'


class ShortHeads(HttpToolsProtocol):
    """A connection that ends when a request's head goes on too long.

    What comes in one piece is bounded by the socket's buffer; what comes in many is counted here.
    """

    head_bytes = 0
    is_in_head = True

    def on_message_begin(self) -> None:
        """Count anew; Source: llhttp, as are the other callbacks."""
        self.head_bytes, self.is_in_head = 0, True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count what is whole; beyond the limit nobody looks at it."""
        self.head_bytes += len(name) + len(value)
        if self.head_bytes <= HEAD_BYTES_MAX:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Answer, unless the head was too long."""
        self.is_in_head = False
        if self.head_bytes > HEAD_BYTES_MAX:
            self._refuse()
        else:
            super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take a piece, and end the connection if the head has no end."""
        super().data_received(data)
        if self.is_in_head:
            self.head_bytes += len(data)
            if self.head_bytes > HEAD_BYTES_MAX:
                self._refuse()

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(TOO_LONG % (len(SAID), SAID))
            self.transport.close()
