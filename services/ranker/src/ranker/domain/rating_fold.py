"""Folds the rating at any moment from events in memory, without SQL."""

from collections.abc import Iterable
from datetime import datetime

from ranker.domain.rating import PLACES_MAX, RatedPlace, rate, select_boards
from ranker.domain.standings import Standings
from shared import events, subjects
from shared.api.rating import RatedParticipant
from shared.contests.definition import Contest
from shared.event_log import RecordedEvent
from shared.subjects import last_token
from shared.wire import is_genuine

CLOSED = "closed"


class RatingFold:
    """All leaderboards, which of them are closed, and the definitions of contests."""

    def __init__(self) -> None:
        self.standings = Standings()
        self._closed: set[str] = set()
        self._contests: dict[str, Contest] = {}

    def fold(self, event: RecordedEvent) -> None:
        """Fold the next event. Raises UnknownEvent."""
        self.standings.fold(event)
        kind, aggregate = event.envelope.type, event.envelope.aggregate
        if kind not in ("LeaderboardChanged", "ContestPublished") or not is_genuine(event.envelope):
            return
        fact, id_ = event.fact, last_token(aggregate)
        if isinstance(fact, events.LeaderboardChanged) and fact.visibility is not None:
            (self._closed.add if fact.visibility == CLOSED else self._closed.discard)(id_)
        elif isinstance(fact, events.ContestPublished) and aggregate == subjects.contest(id_):
            self._contests[id_] = fact.contest

    def rate(self, at: datetime, hidden: Iterable[str] = ()) -> list[RatedParticipant]:
        """Rate the participants at an instant, the best first; `hidden` problems do not count."""
        known = [board for board in self.standings.results if self.standings.has_entry(board, at)]
        closed = {*self._closed, *hidden}
        counted = select_boards(known, closed, list(self._contests.values()), at)
        return rate(
            {
                board: [
                    RatedPlace(row.account, row.rank, row.number)
                    for row in self.standings.board(board, at)[:PLACES_MAX]
                ]
                for board in counted
            }
        )
