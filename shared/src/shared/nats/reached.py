"""How far this process knows the aggregates to reach that it wrote to.

On a cluster any replica answers a read, and one may lag behind what the leader has acknowledged.
Who reads what it wrote itself waits until the replica has it too.
"""

from collections import OrderedDict

# No replica that still answers lags behind for longer than it takes to write so many.
AGGREGATES_MAX = 10_000


class Reached:
    """The newest sequence known of each of the aggregates that were written to last."""

    def __init__(self, most: int = AGGREGATES_MAX) -> None:
        self._most = most
        self._seqs: OrderedDict[str, int] = OrderedDict()

    def note(self, agg: str, seq: int) -> None:
        """An aggregate has an event at this sequence."""
        self._seqs[agg] = max(seq, self._seqs.pop(agg, 0))
        if len(self._seqs) > self._most:
            self._seqs.popitem(last=False)

    def of(self, agg: str) -> int:
        """The sequence that a whole history goes to at least; 0 if nothing is known."""
        return self._seqs.get(agg, 0)
