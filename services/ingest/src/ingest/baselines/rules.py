"""Rules of baselines: which runs a problem version has, and the submission of each."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from ingest.submissions.rules import QUEUE_WAIT_S_MAX, deadline, safe_name
from shared import events
from shared.subjects import BASELINE_ACCOUNT, derive_id

# Baselines run in the lowest priority class, so they may wait longer.
CLASS = "rejudge"
WAIT_S_MAX = 24 * 3600.0
MODE = "ranked"
VIA = "platform"


class BaselineTarget(NamedTuple):
    """A baseline on one GPU type, for one version of its problem."""

    slug: str
    number: int
    digest: str
    name: str
    gpu: str

    def submission(self, turn: int) -> str:
        """Return the id of the run with this number; the same number gives the same id."""
        where = f"{self.slug}/{self.number}/{self.digest}/{self.name}/{self.gpu}"
        return derive_id(f"{where}/{turn}", "Baseline")


def baseline_targets(
    slug: str, published: events.ProblemPublished
) -> Sequence[tuple[BaselineTarget, events.Baseline]]:
    """Return each baseline of a version with each GPU type it runs on."""
    return [
        (BaselineTarget(slug, published.number, published.digest, baseline.name, gpu), baseline)
        for baseline in published.baselines
        for gpu in published.gpus
        if not baseline.gpus
        or gpu.lower() in {baseline_gpus.lower() for baseline_gpus in baseline.gpus}
    ]


def receive_baseline(
    place: BaselineTarget,
    baseline: events.Baseline,
    published: events.ProblemPublished,
    at: datetime,
) -> events.SubmissionReceived:
    """Return the event for a baseline run: without quota, in the lowest priority class."""
    requires = published.requires
    toolchains = dict.fromkeys([*requires.toolchains, *baseline.toolchains])
    extra_wait = timedelta(seconds=WAIT_S_MAX - QUEUE_WAIT_S_MAX)
    return events.SubmissionReceived(
        account=BASELINE_ACCOUNT,
        problem=place.slug,
        problem_number=place.number,
        problem_digest=place.digest,
        gpu=place.gpu,
        mode=MODE,
        source=baseline.source,
        name=safe_name(baseline.file),
        deadline_at=deadline(MODE, published.budgets_s, at) + extra_wait,
        via=VIA,
        class_=CLASS,
        requires=structs.replace(requires, toolchains=list(toolchains)),
        baseline=baseline.name,
    )
