"""What publishing a contest does to each of its problems, before and after it is done."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from warpboard.domain.answers import Answer
from warpboard.domain.problems import Problem

CREATED, UPDATED, SKIPPED = "created", "updated", "skipped"
SAME = "no changes"


@dataclass(frozen=True)
class Plan:
    """What becomes of a problem: whether its files are new to the platform, and what else is."""

    slug: str
    head: str
    what: str
    is_new_version: bool = False


@dataclass
class Told:
    """What became of all of them, under the heads by which a contest is told of."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    errors: list[dict[str, str]] = field(default_factory=list)

    def tell(self, plan: Plan) -> None:
        """Put a problem under its head."""
        if plan.head == SKIPPED:
            self.skip(plan.slug, plan.what)
        else:
            (self.created if plan.head == CREATED else self.updated).append(plan.slug)

    def skip(self, slug: str, reason: str) -> None:
        """A problem to which nothing is done."""
        self.skipped.append({"name": slug, "reason": reason})

    def document(self, *, is_dry: bool) -> Answer:
        """All of it for a program."""
        return {
            "is_dry_run": is_dry,
            "created": self.created,
            "updated": self.updated,
            "skipped": self.skipped,
            "errors": self.errors,
        }


@dataclass(frozen=True)
class Wanted:
    """A problem as it is to be; no `deadline_at` leaves the deadline as it is.

    `has_gpus` if its leaderboards are told the GPU types, whatever its files say. `others` are
    settings that are said besides, by their names.
    """

    slug: str
    digest: str
    gpus: Sequence[str]
    deadline_at: datetime | None = None
    has_gpus: bool = False
    others: Sequence[str] = ()


def plan(wanted: Wanted, there: Problem | None, at: datetime) -> Plan:
    """What is to be done about a problem, by what is there.

    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> plan(Wanted("p", "d", ["CPU"]), None, at).what
    'new, on CPU, without a deadline'
    """
    until = deadline_text(wanted.deadline_at, at)
    if there is None:
        what = f"new, on {', '.join(wanted.gpus)}, {until or 'without a deadline'}"
        return Plan(wanted.slug, CREATED, what, is_new_version=True)
    said = []
    is_new = there.digest != wanted.digest
    if is_new:
        said.append(f"version {there.number + 1} in the place of {there.number}")
    if (is_new or wanted.has_gpus) and sorted(wanted.gpus) != sorted(there.gpus):
        said.append(f"on {', '.join(wanted.gpus)}; it was on {', '.join(there.gpus)}")
    if wanted.deadline_at is not None and wanted.deadline_at != there.deadline_at:
        before = deadline_text(there.deadline_at, at) or "without a deadline"
        said.append(f"{until}; it was {before}")
    said += [f"{', '.join(wanted.others)} as asked"] if wanted.others else []
    head = UPDATED if said else SKIPPED
    return Plan(wanted.slug, head, ", ".join(said) or SAME, is_new_version=is_new)


def deadline_text(until: datetime | None, at: datetime) -> str:
    """Until when, in UTC; "" for no deadline."""
    if until is None:
        return ""
    over = ", which is over" if until <= at else ""
    return f"until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC{over}"
