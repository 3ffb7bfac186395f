"""The rows of the newest lives, as the tables have them: most batches need no others."""

from dataclasses import dataclass, field
from typing import Any

from ranker.domain.batch import Needs, Rows
from ranker.domain.rows import Run, Submission

LIVES_MAX = 2000
# Whoever says more than this is read again.
LINES_MAX = 32
RUN_BYTES_MAX = 16 * 1024


@dataclass(slots=True)
class Remembered:
    """What was folded last, up to the event `seq`; what is oldest is forgotten first."""

    seq: int = 0
    submissions: dict[str, Submission] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    jobs: dict[str, Submission] = field(default_factory=dict)

    def forget(self) -> None:
        """Know nothing any more: a fold broke off, or somebody else wrote."""
        for known in (self.submissions, self.runs, self.jobs):
            known.clear()

    def drop(self, submission: str) -> None:
        """Know nothing of a submission that a statement of its own changed."""
        known = self.submissions.pop(submission, None)
        if known is not None and known.job is not None:
            self.jobs.pop(known.job, None)

    def recall(self, wanted: Needs) -> Rows:
        """The rows of what is wanted and known, which is wanted no longer."""
        rows = Rows()
        for id_ in wanted.submissions & self.submissions.keys():
            wanted.submissions.discard(id_)
            rows.add([self.submissions[id_]], ())
        for job in wanted.jobs & self.jobs.keys():
            if self.jobs[job].job == job:
                wanted.jobs.discard(job)
                rows.add([self.jobs[job]], ())
        for id_ in wanted.runs & self.runs.keys():
            run = self.runs[id_]
            submission = self.submissions.get(run.submission)
            # A run for another job than its submission's is a rejudge's.
            if submission is not None and submission.job == run.job:
                wanted.runs.discard(id_)
                rows.runs[id_] = run
                rows.add([submission], ())
        return rows

    def keep(self, rows: Rows, seq: int) -> None:
        """Know what a batch up to `seq` made of its rows."""
        self.seq = seq
        for submission in rows.submissions.values():
            is_short = len(submission.timeline) <= LINES_MAX
            _put(self.submissions, submission.id, submission if is_short else None)
            if submission.job is not None:
                _put(self.jobs, submission.job, submission if is_short else None)
        for run in rows.runs.values():
            _put(self.runs, run.id, run if _bytes(run) <= RUN_BYTES_MAX else None)
        for known in (self.submissions, self.runs, self.jobs):
            for id_ in list(known)[: max(0, len(known) - LIVES_MAX)]:
                del known[id_]


def _put(known: dict[str, Any], id_: str, row: Submission | Run | None) -> None:
    """Let a row be the newest that is known, or not known."""
    known.pop(id_, None)
    if row is not None:
        known[id_] = row


def _bytes(run: Run) -> int:
    return sum(len(bytes(one)) for one in (run.cases, run.environment, run.files, run.usage)) + (
        len(run.log_head) + len(run.log_tail)
    )
