"""Receipts: what the sender of accepted submissions gets."""

import msgspec

from ingest.submissions.admission import QueueReport
from ingest.submissions.commit import AcceptedBatch, AcceptedSubmission
from shared.api.queues import QueueSnapshot
from shared.api.submissions import Links, Receipt, SubmissionReceipts


def write_receipts(
    accepted: AcceptedBatch, report: QueueReport, licence_notice: str
) -> SubmissionReceipts:
    """Return the receipts of accepted submissions, with their queues as last reported."""
    return SubmissionReceipts(
        submissions=[_write_receipt(submission, report) for submission in accepted.submissions],
        problem_version=accepted.submissions[0].received.problem_number,
        replayed=accepted.is_repeat,
        licence_notice=licence_notice or None,
    )


def _write_receipt(submission: AcceptedSubmission, report: QueueReport) -> Receipt:
    gpu, path = submission.received.gpu, f"/v1/submissions/{submission.number}"
    queue = report.queues.get(gpu)
    return Receipt(
        number=submission.number,
        id=submission.id,
        gpu=gpu,
        state="received",
        deadline_at=submission.received.deadline_at,
        queue=None
        if queue is None
        else msgspec.convert(queue, QueueSnapshot, from_attributes=True),
        quota=submission.left,
        links=Links(self=path, events=f"{path}/events", cancel=f"{path}/cancel"),
        warning=report.warnings.get(gpu),
    )
