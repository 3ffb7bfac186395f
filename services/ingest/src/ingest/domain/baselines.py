"""Baselines: which submissions of the platform's own a problem version asks for."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from ingest.domain.submissions import QUEUE_WAIT_S_MAX, deadline, safe_name
from shared.events import Baseline, ProblemPublished, SubmissionReceived
from shared.ids import BASELINE_ACCOUNT, derived

# They wait behind everybody, and so for longer.
CLASS = "rejudge"
WAIT_S_MAX = 24 * 3600.0
MODE = "ranked"
VIA = "platform"
# Whoever asked so often asks too often.
ROUNDS_MAX = 1000


class Place(NamedTuple):
    """A baseline on a GPU type, under one version of its problem."""

    slug: str
    number: int
    digest: str
    name: str
    gpu: str

    def submission(self, turn: int) -> str:
        """The id of its run that came after so many: asked for twice, it is one."""
        where = f"{self.slug}/{self.number}/{self.digest}/{self.name}/{self.gpu}"
        return derived(f"{where}/{turn}", "Baseline")


def places(slug: str, published: ProblemPublished) -> Sequence[tuple[Place, Baseline]]:
    """Each baseline of a version on each GPU type that it is for."""
    return [
        (Place(slug, published.number, published.digest, one.name, gpu), one)
        for one in published.baselines
        for gpu in published.gpus
        if not one.gpus or gpu.lower() in {named.lower() for named in one.gpus}
    ]


def received(
    place: Place, baseline: Baseline, published: ProblemPublished, at: datetime
) -> SubmissionReceived:
    """The fact that the platform runs a baseline: of no quota, and behind everybody."""
    asked = published.requires
    found = dict.fromkeys([*asked.toolchains, *baseline.toolchains])
    longer = timedelta(seconds=WAIT_S_MAX - QUEUE_WAIT_S_MAX)
    return SubmissionReceived(
        account=BASELINE_ACCOUNT,
        problem=place.slug,
        problem_number=place.number,
        problem_digest=place.digest,
        gpu=place.gpu,
        mode=MODE,
        source=baseline.source,
        name=safe_name(baseline.file),
        deadline_at=deadline(MODE, published.budgets_s, at) + longer,
        via=VIA,
        class_=CLASS,
        requires=structs.replace(asked, toolchains=list(found)),
        baseline=baseline.name,
    )
