"""A problem version: what scheduler, agents and leaderboards know of a problem."""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.problems.baselines import Baseline
from shared.problems.milestones import Milestone
from shared.problems.roofline import Work


@dataclass(frozen=True)
class Needs:
    """What a machine must have for a problem: so many GPUs, memory on each, toolchains by name.

    `sandbox_memory_mib` is what its author wants submissions to have of the machine's own.
    """

    count: int = 1
    memory_mib: int = 0
    toolchains: tuple[str, ...] = ()
    sandbox_memory_mib: int = 0


@dataclass(frozen=True)
class ProblemVersion:
    """A compiled problem; `digest` is the SHA-256 of `manifest`, which names every file by its own.

    `files` holds all that the manifest names, by plain name; the submission is not among them.
    `consent` is the one whose text a participant accepts before they submit, "" for none;
    `source_visible` and `publish` say who reads the sources that are sent in, and when.
    `baselines` are among no files: the platform alone runs them. `works` are the least that each
    timed case has to do, where an author said so.
    Units: budgets in seconds, `source_bytes_max` in bytes.
    """

    slug: str
    title: str
    manifest: bytes
    digest: str
    files: Mapping[str, bytes]
    gpus: tuple[str, ...]
    budgets_s: Mapping[str, int]
    ranking_by: str
    cases_count: Mapping[str, int]
    source_bytes_max: int
    languages: tuple[str, ...]
    requires: Needs = Needs()
    consent: str = ""
    source_visible: str = "after_close"
    publish: str = "after_close"
    baselines: tuple[Baseline, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    works: tuple[Work, ...] = ()
    warnings: tuple[str, ...] = ()
