"""What authors and operators ask for: to publish a problem, and to change its leaderboards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared import events
from shared.errors import Refused
from shared.events import QuotaLimitSet
from shared.problems.report import CheckReport, read_report, require_clean
from shared.problems.warpboard_yml import NO_SETTINGS, PublishSettings

# Every agent has this much: a harness and a submission that imports torch need it.
USUAL_MEMORY_MIB = 2048


@dataclass(frozen=True)
class Change:
    """Change a leaderboard: visibility, deadline, practice, GPU types, contest.

    None changes nothing. `has_deadline` false removes the deadline, true sets `deadline_at`. With
    `is_no_sooner` the deadline may only be postponed. Setting a deadline that has passed by `at`,
    or dropping a GPU type in `used` (those with entries), needs `is_forced`. Opening only GPU types
    on which nothing was run needs `allows_untested`; `tested_gpus` are those of a new check.
    """

    reason: str
    visibility: str | None = None
    has_deadline: bool | None = None
    deadline_at: datetime | None = None
    is_no_sooner: bool = False
    gpus: tuple[str, ...] | None = None
    used: frozenset[str] = frozenset()
    is_forced: bool = False
    at: datetime | None = None
    contest: str | None = None
    has_practice: bool | None = None
    tested_gpus: tuple[str, ...] = ()
    allows_untested: bool = False


DEFAULT_CHANGE = Change("published so")


@dataclass(frozen=True)
class Publish:
    """Publish a compiled problem; the decision assigns its number.

    `change` is applied to its leaderboards. With `is_first` it must be the first version, because
    publishing makes the author the owner. An `objection` refuses a new version.
    """

    version: events.ProblemPublished
    change: Change = DEFAULT_CHANGE
    is_first: bool = False
    objection: Refused | None = None


ProblemCommand = Publish | Change | events.LeaderboardArchived


@dataclass(frozen=True)
class LeaderboardChange:
    """The settings to apply to a leaderboard, and whether an operator applies them."""

    slug: str
    change: Change
    quotas: Sequence[QuotaLimitSet] = ()
    is_operator: bool = True


@dataclass(frozen=True)
class Check:
    """The check of a problem: its report, or the reason why there is none."""

    report: bytes | None = None
    unchecked: str = ""

    def _read(self) -> CheckReport | None:
        if self.report is None or self.unchecked:
            return None
        try:
            return read_report(self.report)
        except Refused:
            # `objection` reports it.
            return None

    @property
    def memory_mib(self) -> int:
        """Return the measured memory that a run needs; 0 if any machine has enough."""
        report = self._read()
        return report.memory_mib if report and report.memory_mib > USUAL_MEMORY_MIB else 0

    def tested_gpus(self, digest: str) -> list[str]:
        """Return the GPU types on which a version was run and passed."""
        report = self._read()
        is_valid = report is not None and report.is_clean and report.digest == digest
        return list(report.tested_gpus) if report and is_valid else []

    def objection(self, digest: str) -> Refused | None:
        """Return why a version cannot be published, or None."""
        if self.unchecked:
            return None
        if self.report is None:
            message = (
                "a new version needs its check report in the field report: run "
                "`warpboard problem publish`, or send the output of `warpboard problem check`"
            )
            return Refused("check_missing", message, "report")
        try:
            require_clean(read_report(self.report), digest)
        except Refused as refused:
            return refused
        return None


@dataclass(frozen=True)
class Publication:
    """The files and settings of a problem; None in `change` leaves a setting as it is."""

    slug: str
    files: Mapping[str, bytes]
    check: Check = Check()
    settings: PublishSettings = NO_SETTINGS
    change: Change = DEFAULT_CHANGE
    quotas: tuple[QuotaLimitSet, ...] = ()
    is_operator: bool = False

    @property
    def board(self) -> LeaderboardChange:
        """Return the change to its leaderboards."""
        return LeaderboardChange(self.slug, self.change, self.quotas, self.is_operator)
