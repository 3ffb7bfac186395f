"""Which tier a machine may claim after its first hour, and why not a better one; the table of it.

Everything here is a function of the rows, so it can be tested without a GPU. The rules are those of
docs/timing.md and docs/isolation.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.gpu.table import NO, NOTHING, UNSHOWN, YES, Row

BENCHMARK = "gpu"
COLUMNS = ("benchmark", "figure", "measured", "goal", "met", "load", "date", "commit")
CELL_CHARS = 240

TIERS = ("G1", "G2", "G3", "G0")
# Without the gate's experiments a time is the worker's claim, bounded by the trusted clock. Those
# that end in `m` run beside the worker, with MPS, as G1 does.
GATED = {
    "G1": ("V1", "V2", "V3", "V4", "V5m", "V6m", "V7m"),
    "G2": ("V1", "V2", "V3", "V5", "V6", "V7", "V8"),
}
# Times stay provisional, with wider ties, until the gate's and these have passed.
TIMED = ("E3", "E3m", "E7", "E8", "E11", "E12")


@dataclass(frozen=True)
class Grade:
    """What a machine may claim. `denials` has a sentence for each check that denies a better tier.

    `tier` is empty where nothing could be shown, `open_checks` names what keeps times provisional.
    """

    level: str
    tier: str
    denials: tuple[str, ...] = ()
    open_checks: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The grade as it is printed."""
        claim = f"tier {self.tier}, level {self.level}" if self.tier else "no tier"
        state = ", provisional" if self.tier and self.open_checks else ""
        lines = [f"This machine may claim: {claim}{state}"]
        lines += [f"- {denial}" for denial in self.denials]
        if self.tier and self.open_checks:
            lines.append(f"- provisional until these pass: {'; '.join(self.open_checks)}")
        return lines


@dataclass(frozen=True)
class Findings:
    """The rows of every step, by the name of the step."""

    by_step: Mapping[str, Sequence[Row]]
    expected_cheats: Sequence[str] = ()

    @property
    def experiments(self) -> dict[str, Row]:
        """The experiments by name, which several steps run."""
        steps = ("gate", "clocks", "recovery")
        return {row.name: row for step in steps for row in self.by_step.get(step, ())}

    def find(self, step: str, name: str) -> Row | None:
        """Return a row of a step."""
        return next((row for row in self.by_step.get(step, ()) if row.name == name), None)

    def doubts(self, names: Iterable[str]) -> list[str]:
        """Return why each of these experiments has not passed, those that have left out.

        A short form has too few repetitions to count.
        """
        return [
            f"{name} {_state(self.experiments.get(name))}"
            for name in names
            if not _has_passed(self.experiments.get(name))
        ]

    def doubtful_cheats(self) -> list[str]:
        """Return which cheats did not end as their header promises, or did not run."""
        rows = {row.name: row for row in self.by_step.get("cheats", ())}
        wrong = [
            f"{row.name}: {_short(row.measured, 100)}" for row in rows.values() if row.passed == NO
        ]
        missing = [name for name in self.expected_cheats if name not in rows]
        if not rows:
            return ["no cheat ran"]
        return wrong + ([f"not run: {' '.join(missing)}"] if missing else [])


def grade(findings: Findings, *, is_imitation: bool) -> Grade:
    """Return the best tier that nothing denies.

    >>> grade(Findings({}), is_imitation=True).lines
    ['This machine may claim: no tier', '- this is an imitation of a GPU: it shows no tier']
    """
    isolation = findings.find("doctor", "level")
    level = str(isolation.data.get("level", "")) if isolation else ""
    if is_imitation:
        return Grade(level, "", ("this is an imitation of a GPU: it shows no tier",))
    device = findings.find("probe", "tier")
    opened = str(device.data.get("tier", "")) if device else ""
    if not opened:
        return Grade(level, "", (f"the GPU was not opened: probe {_state(device)}",))
    denials: list[str] = []
    tier = TIERS[-1]
    for candidate in TIERS:
        reasons = _reasons_against(candidate, opened, level, findings)
        if not reasons:
            tier = candidate
            break
        denials += [f"{candidate} is denied: {reason}" for reason in reasons]
    open_checks = findings.doubts(dict.fromkeys((*GATED.get(tier, GATED["G2"]), *TIMED)))
    return Grade(level, tier, tuple(denials), tuple(open_checks))


def _reasons_against(tier: str, opened: str, level: str, findings: Findings) -> list[str]:
    reasons = []
    if TIERS.index(opened) > TIERS.index(tier):
        reasons.append(f"probe opened the GPU as {opened}")
    if tier == "G1" and level != "strong":
        reasons.append(f"doctor found isolation {level or 'unknown'}, not strong")
    if tier in GATED:
        reasons += findings.doubts(GATED[tier])
        reasons += [f"cheats: {doubt}" for doubt in findings.doubtful_cheats()]
    return reasons if tier != TIERS[-1] else []


def table_lines(
    steps: Mapping[str, Sequence[Row]], place: str, date: str, commit: str
) -> list[str]:
    """Return the rows as Markdown, in the columns of bench/RESULTS.md; `place` names the GPU.

    >>> row = Row("E1", "step of the timer", "32 ns", "32 ns", "yes", 1.0, {})
    >>> print(*table_lines({"clocks": [row]}, "NVIDIA H100", "2026-11-27", "abc"), sep="\\n")
    | benchmark | figure | measured | goal | met | load | date | commit |
    | --- | --- | --- | --- | --- | --- | --- | --- |
    | gpu | clocks: E1 step of the timer | 32 ns | 32 ns | yes | NVIDIA H100 | 2026-11-27 | abc |
    """
    lines = [_line(COLUMNS), _line(["---"] * len(COLUMNS))]
    for step, rows in steps.items():
        for row in rows:
            figure = f"{step}: {row.name} {row.what}".strip()
            met = {NOTHING: "", NO: "no"}.get(row.passed, row.passed)
            met = f"{met}, short form".removeprefix(", ") if row.is_short else met
            cells = (BENCHMARK, figure, row.measured, row.expected, met, place, date, commit)
            lines.append(_line([_short(cell, CELL_CHARS) for cell in cells]))
    return lines


def rows_of_cheats(document: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of `bench.gpu.cheats`."""
    return [
        Row(
            row["name"],
            row["id"],
            row["expect"],
            "; ".join([row["verdict"] or row["failure_code"], *row["faults"]]),
            NO if row["faults"] else YES,
            row.get("took_s", 0.0),
            {"level": row["level"], "tier": row["tier"], "times_us": row["times_us"]},
        )
        for row in document
    ]


def rows_of_figures(document: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of a benchmark of the platform."""
    return [
        Row(
            figure["name"],
            "",
            "passed",
            f"{figure['measured']:.4g} {figure.get('unit', '')}".strip(),
            YES,
            0.0,
            {"measured": figure["measured"]},
        )
        for figure in document
    ]


def _has_passed(row: Row | None) -> bool:
    return row is not None and row.passed == YES and not row.is_short


def _state(row: Row | None) -> str:
    if row is None:
        return "has not run"
    if row.passed == UNSHOWN:
        return UNSHOWN
    if row.passed == YES and row.is_short:
        return "has passed in its short form alone"
    if row.is_skipped:
        return f"has not run ({_short(row.measured, 100)})"
    return f"has not passed ({_short(row.measured, 100)})"


def _short(text: str, chars: int) -> str:
    text = " ".join(text.replace("|", "/").split())
    return text if len(text) <= chars else f"{text[: chars - 2]} …"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
