"""Runs the items of a chunk of an evaluation, several at once: what one does costs no other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from shared.api.evaluations import EvaluationItem
from shared.evaluations import ItemResult
from shared.events import RunFailed


@dataclass
class ChunkRun:
    """The items of a chunk while they run; `first` is the number of the first one.

    `run_item` returns the result of an item, or how the platform failed at it. As many items run at
    once as `count_slots` allows when one may begin. Once `is_stopping`, no item begins but the
    first. `report_progress` gets the number of items that ended.
    """

    items: Sequence[EvaluationItem]
    first: int
    run_item: Callable[[int, EvaluationItem], Awaitable[ItemResult | RunFailed]]
    count_slots: Callable[[], int]
    is_stopping: Callable[[], bool]
    report_progress: Callable[[int], Awaitable[None]]
    _results: dict[int, ItemResult] = field(default_factory=dict)
    _running: dict[asyncio.Task[ItemResult | RunFailed], int] = field(default_factory=dict)
    _failures: dict[int, RunFailed] = field(default_factory=dict)

    async def run(self) -> tuple[list[ItemResult], RunFailed | None]:
        """Run the items; return the results of those before the first one without any, and why.

        An item has none if the chunk was stopped before it began, or the platform failed at it.
        Raises the errors of the callbacks. No item runs any more then, or after a cancellation.
        """
        next_place, end_place = 0, len(self.items)
        try:
            while True:
                while next_place < end_place and self._may_begin(next_place):
                    self._begin(next_place)
                    next_place += 1
                if not self._running:
                    break
                await self._wait_for_item()
                end_place = min([end_place, *self._failures])
                await self._cancel(end_place)
        finally:
            await self._cancel(0)
        count = min(end_place, next_place)
        return [self._results[place] for place in range(count)], self._failures.get(count)

    def _may_begin(self, place: int) -> bool:
        has_slot = len(self._running) < max(1, self.count_slots())
        return has_slot and not (place and self.is_stopping())

    def _begin(self, place: int) -> None:
        item = self.items[place]
        task = asyncio.ensure_future(self.run_item(self.first + place, item))
        self._running[task] = place

    async def _wait_for_item(self) -> None:
        """Wait until an item ends."""
        ended, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            place, outcome = self._running.pop(task), task.result()
            if isinstance(outcome, ItemResult):
                self._results[place] = outcome
            else:
                self._failures[place] = outcome
        await self.report_progress(len(self._results))

    async def _cancel(self, first_place: int) -> None:
        """Cancel the items from this place on, which nobody needs any more."""
        tasks = [task for task, place in self._running.items() if place >= first_place]
        for task in tasks:
            del self._running[task]
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
