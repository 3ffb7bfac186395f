"""A problem that is to be published: when it closes, what its check says, and its card."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from discord_edge.domain.report import GREY, Card
from discord_edge.domain.wording import escaped
from shared.errors import Refused
from shared.problems import ProblemVersion
from shared.problems.contest import deadline
from shared.problems.report import CheckReport
from shared.problems.sources import STATEMENT

NEVER = "none"
FINDINGS_SHOWN = 5


@dataclass(frozen=True)
class Draft:
    """A problem with all that is said of it; without a report, why there is none."""

    version: ProblemVersion
    ends_at: datetime | None
    gpus: tuple[str, ...]
    visibility: str
    report: CheckReport | None
    unchecked: str = ""

    @property
    def fields(self) -> dict[str, object]:
        """What is said of it beside its files."""
        vouched = {
            "report": None if self.report is None else self.report.model_dump_json(),
            "unchecked": self.unchecked,
        }
        said: dict[str, object] = {
            "slug": self.version.slug,
            "deadline": NEVER if self.ends_at is None else self.ends_at.isoformat(),
            "gpu": list(self.gpus),
            "visibility": self.visibility,
        }
        return said | {name: text for name, text in vouched.items() if text}


def described(
    files: Mapping[str, bytes], description: str | None, *, is_checked: bool
) -> dict[str, bytes]:
    r"""The files with what is said of them. Errors: Refused where something is said already.

    >>> described({"a.py": b""}, "Copy it.", is_checked=False)
    {'a.py': b'', 'statement.md': b'Copy it.\n'}
    """
    if description is None:
        return dict(files)
    if STATEMENT in files:
        what = f"the files have a {STATEMENT}: change that, or leave `description` out"
        raise Refused("invalid_request", what, "description")
    if is_checked:
        what = f"a report is of the files as they are: write the description into {STATEMENT}"
        raise Refused("invalid_request", f"{what}, and check it again", "description")
    return {**files, STATEMENT: f"{description.strip()}\n".encode()}


def ends_at(text: str, at: datetime) -> datetime | None:
    """When a leaderboard closes, None for the word `none`. Errors: Refused.

    >>> from datetime import UTC
    >>> str(ends_at("2026-12-01 18:00", datetime(2026, 1, 1, tzinfo=UTC)))
    '2026-12-01 18:00:00+00:00'
    """
    if text.strip().lower() == NEVER:
        return None
    found = deadline(text.strip())
    if found is None:
        what = f"`{text[:40]}` is no deadline: write 2026-12-01 18:00 (UTC), or {NEVER}"
        raise Refused("bad_deadline", what, "deadline")
    if found <= at:
        what = f"{found:%Y-%m-%d %H:%M} UTC is over: choose a later one"
        raise Refused("bad_deadline", what, "deadline")
    return found


def instant(at: datetime | None) -> str:
    """A deadline on the reader's own clock.

    >>> instant(None)
    'never'
    """
    return "never" if at is None else f"<t:{int(at.timestamp())}:F>"


def card(draft: Draft) -> Card:
    """What would be published."""
    version = draft.version
    cases = ", ".join(f"{count} {name}" for name, count in version.cases_count.items())
    lines = [
        f"closes {instant(draft.ends_at)}",
        f"GPU types {escaped(', '.join(draft.gpus))}",
        f"seen by {'everybody' if draft.visibility == 'public' else 'members alone'}",
        f"cases {escaped(cases)} · ranked by {escaped(version.ranking_by)}",
        f"version `{version.digest[:12]}`",
        *_check(draft),
        *(f"⚠ {escaped(one)}" for one in version.warnings[:FINDINGS_SHOWN]),
    ]
    title = f"{escaped(version.title, 100)} ({version.slug})"
    return Card(title, "\n".join(lines), GREY, "nothing is published yet")


def _check(draft: Draft) -> list[str]:
    if draft.report is None:
        return [f"not checked: {escaped(draft.unchecked)}"]
    findings = draft.report.findings
    said = f"checked: {len(draft.report.solutions)} solutions, {len(findings)} warnings"
    shown = [f"⚠ {one.code} {escaped(one.where)}: {escaped(one.text)}" for one in findings]
    return [said, *shown[:FINDINGS_SHOWN]]
