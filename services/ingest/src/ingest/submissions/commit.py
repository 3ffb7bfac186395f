"""Puts the submissions of a request into the log, all of them or none."""

from collections.abc import Sequence
from typing import NamedTuple

from ingest.decisions import DECISIONS_MAX, back_off, http_append
from ingest.histories import FoldedState
from ingest.ports import Ports
from ingest.quotas.rules import Quota
from ingest.submissions.admission import QueueReport
from ingest.submissions.charging import Charge, Charging, Repeat, received
from ingest.submissions.resolution import SubmissionBatch
from shared import subjects
from shared.api.quotas import Balance
from shared.errors import Failed
from shared.event_log import Appender, Conflict
from shared.events import SubmissionReceived

# The accounts whose quotas are known from their last submissions.
KNOWN_MAX = 10_000


class AcceptedSubmission(NamedTuple):
    """A submission in the log; `left` is what is left of its quota."""

    id: str
    number: int
    received: SubmissionReceived
    left: Balance | None


class AcceptedBatch(NamedTuple):
    """The submissions of a request, which are in the log; whether they repeat an earlier one."""

    submissions: Sequence[AcceptedSubmission]
    is_repeat: bool


class Commits:
    """Commits charged requests. Methods may raise `Refused` and `Failed`."""

    def __init__(self, ports: Ports, charging: Charging) -> None:
        self._ports = ports
        self._charging = charging

    async def commit(
        self, batch: SubmissionBatch, charge: Charge | Repeat, queues: QueueReport
    ) -> AcceptedBatch:
        """Store the file and the events of a request, and its note.

        If somebody else used the quotas meanwhile, the request is charged again.
        """
        for attempt in range(DECISIONS_MAX):
            try:
                accepted = await self._append(batch, charge)
            except Conflict:
                self._charging.known.pop(batch.account, None)
                await back_off(attempt)
                charge = await self._charging.charge(batch, queues)
                continue
            await self._add_note(batch, accepted)
            return accepted
        raise Failed(f"a quota changed {DECISIONS_MAX} times during the decision: try again")

    async def _append(self, batch: SubmissionBatch, charge: Charge | Repeat) -> AcceptedBatch:
        """Append the events of a request once. Raises `Conflict`, if a history has grown."""
        if isinstance(charge, Repeat):
            return _repeated(charge)
        await self._ports.blobs.put(batch.source, batch.submissions[0].source.media)
        quota, opened = subjects.quota(batch.account), charge.quotas.opened
        phase_uses = charge.quotas.phase_uses
        phase_quota = subjects.quota(charge.quotas.phase_key) if phase_uses else ""
        # Of several events of one aggregate in a batch, only the first names a version.
        appends = [
            http_append(quota, opened, charge.version, opened.submissions[0]),
            *(http_append(quota, use, None, use.submission) for use in charge.quotas.uses),
            *(
                http_append(
                    *(phase_quota, use, None if index else charge.quotas.phase_version),
                    use.submission,
                )
                for index, use in enumerate(phase_uses)
            ),
            *(
                http_append(subjects.submission(id_), submission, 0, id_)
                for id_, submission in charge.submissions.items()
            ),
        ]
        appender = Appender(self._ports.log, f"account:{batch.account}", lambda: charge.at)
        first = await appender.append(*appends) - len(charge.submissions) + 1
        # The events of the quota stand before those of the phase and of the submissions.
        own_last = first - 1 - len(phase_uses)
        self._remember(batch.account, FoldedState(charge.quotas.own, own_last))
        accepted = [
            AcceptedSubmission(id_, first + position, submission, charge.quotas.left[id_])
            for position, (id_, submission) in enumerate(charge.submissions.items())
        ]
        return AcceptedBatch(accepted, is_repeat=False)

    def _remember(self, account: str, quotas: FoldedState[Quota]) -> None:
        known = self._charging.known
        known.pop(account, None)
        known[account] = quotas
        if len(known) > KNOWN_MAX:
            del known[next(iter(known))]

    async def _add_note(self, batch: SubmissionBatch, accepted: AcceptedBatch) -> None:
        # After the log, which decides whether they exist: a client that gets an error here
        # retries under the same key.
        if batch.note is not None:
            ids = [submission.id for submission in accepted.submissions]
            await self._ports.account_store.begin_notes(batch.account, ids, batch.note)


def _repeated(repeat: Repeat) -> AcceptedBatch:
    """Return the submissions of the request that was accepted before."""
    accepted = [
        AcceptedSubmission(id_, event.seq, received(event), repeat.left[id_])
        for id_, event in repeat.accepted.items()
    ]
    return AcceptedBatch(accepted, is_repeat=True)
