"""The two files of an evaluation: the sources that an agent gets, and the results that it stores.

Both have one line of JSON for each item. An item is named by its place in the sources, from 0 on;
the participant's own name of it, `id`, is in these files only, never in an event.
"""

from collections.abc import Iterable, Sequence

import msgspec

from shared.api.evaluations import EvaluationItem
from shared.errors import Failed, Refused
from shared.events import CaseResult, Composition, StageResult

# The most items of an evaluation; a run of a chunk takes fewer.
ITEMS_MAX = 256
SOURCES_NAME, RESULTS_NAME = "sources.jsonl", "results.jsonl"
JSON_LINES = "application/jsonl"


class ItemResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an item ended: what a run of a submission would say, in the same fields.

    `speedup` is how many times as fast as the yardstick it is, with its 95 % `interval`, and
    `time_us` the time of a call, all None unless it was timed. `doubts` say why a moderator would
    review it. `key` opens `key_commit`, so that the run can be repeated; nobody sees it.
    """

    item: int
    id: str
    verdict: str
    stage: str = ""
    reason: str = ""
    cases: list[CaseResult] = []
    stages: list[StageResult] = []
    took_s: float = 0.0
    time_us: float | None = None
    time_interval_us: tuple[float, float] | None = None
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    grade: str = ""
    composition: Composition | None = None
    doubts: list[str] = []
    log_head: str = ""
    log_tail: str = ""
    usage: dict[str, float] = {}
    key: str = ""
    key_commit: str = ""


_items = msgspec.json.Decoder(EvaluationItem)
_results = msgspec.json.Decoder(ItemResult)


def encode_lines(values: Iterable[EvaluationItem | ItemResult]) -> bytes:
    """Return the content of a file of sources or results.

    >>> encode_lines([EvaluationItem(id="a", source="x")])
    b'{"id":"a","source":"x"}\\n'
    """
    return msgspec.json.Encoder().encode_lines(values)


def read_items(data: bytes) -> list[EvaluationItem]:
    """Return the items in a file of sources. Raises Failed if it is none.

    >>> [item.id for item in read_items(encode_lines([EvaluationItem(id="a", source="x")]))]
    ['a']
    """
    try:
        return _items.decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Failed(f"the sources of an evaluation cannot be read: {error}") from error


def read_results(data: bytes) -> Sequence[ItemResult]:
    """Return the results in a file that an agent stored. Raises Refused if it is none."""
    try:
        return _results.decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"the results of a chunk cannot be read: {error}"
        raise Refused("invalid_request", message) from error
