"""Atomic batches: several messages that a stream stores all or none of (JetStream's ADR-50).

Group commit: concurrent appends are stored with one sync of the disk. A group is an atomic batch of
unrelated appends: all are stored or, after a conflict or a lost answer, none as far as we know;
each append then goes alone, which reveals what became of it. A few appends go alone, unless one of
them is a batch anyway, which the others then join.
"""

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nats.aio.client import Client

from shared.nats.connection import (
    EXPECTED_SEQ_HEADER,
    EXPECTED_SUBJECT_HEADER,
    MESSAGE_ID_HEADER,
    REQUEST_ERRORS,
    TemporaryError,
    check_ack,
    request,
)

BATCH_MAX = 1000


class MessageDraft(NamedTuple):
    """A message to store: its subject, its id, and the expected sequence of its history.

    `history` is the filter of that history's subjects, "" if it is only this subject.
    """

    subject: str
    id: str
    data: bytes
    expected: int | None
    history: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which the server checks the message before it stores it."""
        headers = {MESSAGE_ID_HEADER: self.id}
        if self.expected is not None:
            headers[EXPECTED_SEQ_HEADER] = str(self.expected)
            if self.versioned != self.subject:
                headers[EXPECTED_SUBJECT_HEADER] = self.versioned
        return headers

    @property
    def versioned(self) -> str:
        """The filter of the subjects whose last sequence is `expected`."""
        return self.history or self.subject

    @property
    def message(self) -> tuple[str, bytes, dict[str, str]]:
        """Subject, data and headers, to publish it alone."""
        return self.subject, self.data, self.headers


async def publish_batch(nc: Client, drafts: Sequence[MessageDraft]) -> int:
    """Publish a batch once and return the sequence of its last; errors: those of publish.

    Each attempt has a new name: what an earlier one left unfinished is dropped after ten seconds.
    There is one round trip: the answer to the last message reports any error in the batch.
    """
    name = secrets.token_hex(16)
    *others, (last, headers) = [
        (draft, draft.headers | {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(place)})
        for place, draft in enumerate(drafts, 1)
    ]
    for draft, draft_headers in others:
        await nc.publish(draft.subject, draft.data, headers=draft_headers)
    commit_headers = headers | {"Nats-Batch-Commit": "1"}
    answer = await request(nc, last.subject, last.data, commit_headers)
    if not answer.data:
        raise TemporaryError("the end of the batch was not acknowledged")
    return check_ack(answer.data).seq


GROUP_MAX = 100
# Costs in appends of one event: of a batch, of the appends that may go alone at once, and the least
# cost for which a group is formed. Measured on two cores with sync always (nats-server 2.15.1,
# 2026-11): the server spends 1.9 ms on a batch of two, 2.2 ms on one of fifty, and 0.1 ms on an
# append alone.
BATCH_COST = 20
ALONE_MAX = 24
GROUP_MIN = 21


class _PendingAppend(NamedTuple):
    drafts: Sequence[MessageDraft]
    last: "asyncio.Future[int | None]"


class GroupCommit:
    """The appends of one process that wait to be stored together."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._queue: deque[_PendingAppend] = deque()
        self._alone_cost = 0
        self._group_max = GROUP_MAX
        self._storing: asyncio.Task[None] | None = None
        self._is_scheduled = False

    @contextlib.contextmanager
    def alone(self, drafts: Sequence[MessageDraft]) -> Iterator[None]:
        """Count an append as going alone, for the duration of the block."""
        cost = _cost(drafts)
        self._alone_cost += cost
        try:
            yield
        finally:
            self._alone_cost -= cost
            self._dispatch()

    async def store(self, drafts: Sequence[MessageDraft]) -> int | None:
        """Return the last draft's sequence once a group stored it, or None: then it must go alone.

        Appends from the same iteration of the event loop are considered together.
        """
        if not self._nc.is_connected:
            return None
        loop = asyncio.get_running_loop()
        append = _PendingAppend(drafts, loop.create_future())
        self._queue.append(append)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._dispatch)
        return await append.last

    def _dispatch(self) -> None:
        """Store a group, or release appends to go alone, unless they should wait for others."""
        self._is_scheduled = False
        while self._queue and self._storing is None:
            group = self._next_group()
            if len(group) > 1 and sum(_cost(append.drafts) for append in group) >= GROUP_MIN:
                self._storing = asyncio.create_task(self._commit(group))
            elif self._alone_cost >= ALONE_MAX and self._nc.is_connected:
                self._queue.extendleft(reversed(group))
                return
            else:
                _resolve(group, None)

    def _next_group(self) -> list[_PendingAppend]:
        """Take as many as fit into one batch, which has each aggregate and each id once."""
        group, postponed, used_names = [], deque[_PendingAppend](), set[str]()
        size = 0
        while self._queue:
            append = self._queue.popleft()
            names = {name for draft in append.drafts for name in (draft.versioned, draft.id)}
            if size + len(append.drafts) > self._group_max or names & used_names:
                postponed.append(append)
                continue
            group.append(append)
            used_names |= names
            size += len(append.drafts)
        self._queue = postponed
        if not group:
            group.append(postponed.popleft())
        return group

    async def _commit(self, group: list[_PendingAppend]) -> None:
        """Store a group and report its sequences, or None; failures shrink the next groups."""
        last: int | None = None
        try:
            drafts = [draft for append in group for draft in append.drafts]
            last = await publish_batch(self._nc, drafts)
            self._group_max = min(GROUP_MAX, self._group_max * 2)
        except REQUEST_ERRORS:
            self._group_max = max(GROUP_MIN, self._group_max // 2)
        finally:
            # However this ends, nobody must wait for this group any longer.
            self._storing = None
            _resolve(group, last)
            self._dispatch()


def _cost(drafts: Sequence[MessageDraft]) -> int:
    return 1 if len(drafts) == 1 else BATCH_COST


def _resolve(group: Sequence[_PendingAppend], last: int | None) -> None:
    """Report to each append its own last sequence: a batch has consecutive ones."""
    for append in reversed(group):
        if not append.last.done():
            append.last.set_result(last)
        if last is not None:
            last -= len(append.drafts)
