"""Cursors: where a list goes on, as a text that means nothing to who carries it."""

import base64
import binascii
import time
from typing import TypeVar

import msgspec

from ranker.http.answers import CURSOR_CHARS_MAX
from shared.errors import Refused

GOOD_S = 3600.0
# A cursor from another machine's clock may be this much ahead of ours.
AHEAD_S_MAX = 60.0

_Kind = TypeVar("_Kind", bound="Cursor")


class Cursor(msgspec.Struct, frozen=True, kw_only=True, tag_field="k"):
    """Since when it is carried, and the sequence that the first page was read at."""

    made_at: float
    as_of: int


def text(cursor: Cursor) -> str:
    """A cursor as readers carry it."""
    said = base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")
    assert len(said) <= CURSOR_CHARS_MAX, "what a cursor names is short"
    return said


def read(carried: str, kind: type[_Kind]) -> _Kind:
    """The cursor in a text. Errors: Refused `bad_cursor`, or `cursor_expired` after an hour."""
    padded = carried + "=" * (-len(carried) % 4)
    try:
        data = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        cursor = msgspec.json.decode(data, type=kind)
    except (UnicodeError, binascii.Error, msgspec.DecodeError, RecursionError) as error:
        what = "the cursor is none that this list gave: begin without one"
        raise Refused("bad_cursor", what, "cursor") from error
    age_s = time.time() - cursor.made_at
    if age_s < -AHEAD_S_MAX:
        raise Refused("bad_cursor", "the cursor is from the future: begin without one", "cursor")
    if age_s > GOOD_S:
        raise expired()
    return cursor


def expired() -> Refused:
    """What is said of a cursor that leads to nothing any more."""
    return Refused("cursor_expired", "the cursor is too old: begin without one", "cursor")
