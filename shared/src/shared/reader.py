"""Who reads, as one service says it to another: the header Warpboard-Reader."""

import msgspec

HEADER = "Warpboard-Reader"
HEADER_LENGTH_MAX = 64 * 1024


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks to read; nobody, who sees what is public, unless it says otherwise.

    `boards` are the closed leaderboards that they may see, `owned` the problems that they are the
    author of; `problems` those on which what is theirs is theirs to them, for the token of who
    reads may be limited. None is no limit.
    """

    account: str | None = None
    is_staff: bool = False
    boards: list[str] = []
    problems: list[str] = []
    owned: list[str] = []


ANYBODY = Reader()
_DECODER = msgspec.json.Decoder(Reader)


def encode(reader: Reader) -> str:
    """A reader as a header's value.

    >>> encode(Reader(account="a-1"))
    '{"account":"a-1","is_staff":false,"boards":[],"problems":[],"owned":[]}'
    """
    text = msgspec.json.encode(reader).decode()
    assert text.isascii(), "accounts and slugs are ASCII"
    return text


def decode(text: str | None) -> Reader:
    """Who a header says reads; nobody if there is none, or it cannot be read.

    >>> decode("{") == decode(None) == Reader()
    True
    """
    if not text or len(text) > HEADER_LENGTH_MAX:
        return ANYBODY
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ANYBODY
