"""What a batch of events makes of the rows that it touches: in memory, then written at once."""

from collections.abc import Callable, Iterable

from ranker.domain import changes, outcomes
from ranker.domain.batch import Rows, Told
from ranker.domain.projection import MEANING
from shared.wire import is_genuine

CHANGES: dict[str, Callable[[Rows, Told], None]] = changes.CHANGES | outcomes.CHANGES


def fold(rows: Rows, batch: Iterable[Told]) -> Rows:
    """The rows after a batch; what an event says of rows that nobody made is dropped.

    So is what lies where it does not belong.
    """
    for told in batch:
        if not is_genuine(told.event.envelope):
            continue
        kind = told.event.envelope.type
        change = CHANGES.get(kind)
        if change is not None:
            change(rows, told)
        meaning = MEANING.get(kind)
        if meaning is not None:
            rows.steps += meaning(told.event, told.fact)
    return rows
