"""What scores are held against beside each other: a problem's baselines and milestones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.problems.baselines import Allowed, Baseline, baselines, of_baselines
from shared.problems.document import read_document
from shared.problems.milestones import Measured, Milestone, milestones, of_milestones
from shared.problems.warpboard_yml import NAME, WarpboardYml


@dataclass(frozen=True)
class Goals:
    """The baselines and the milestones of a problem version."""

    baselines: tuple[Baseline, ...] = ()
    milestones: tuple[Milestone, ...] = ()

    @property
    def said(self) -> dict[str, Any]:
        """What its manifest says of them; nothing of what there is none of."""
        return of_baselines(self.baselines) | of_milestones(self.milestones)


def goals(extras: WarpboardYml, content: Mapping[str, Any], files: Mapping[str, bytes]) -> Goals:
    """Those that a `warpboard.yml` names, for a problem of this content. Errors: Refused."""
    if not extras.baselines and not extras.milestones:
        return Goals()
    # Read once more, for the lines of what is wrong.
    document = read_document(NAME, files[NAME])
    allowed = Allowed(content["languages"], content["source_bytes_max"])
    found = baselines(document, extras.baselines, files, allowed)
    measured = Measured(
        baselines=[one.name for one in found],
        gpus=content["gpus"],
        tests_count=len(content["tests"]),
        has_roofline="roofline" in content,
    )
    return Goals(found, milestones(document, extras.milestones, measured))
