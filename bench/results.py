"""The page of results: one table with the latest figures of each benchmark beside their goals."""

import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import Figure
from bench.noop_platform import load

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "bench" / "RESULTS.md"
COLUMNS = ("benchmark", "figure", "measured", "goal", "met", "load", "date", "commit")
GIT_S_MAX = 10.0
HEAD = """# Results

Written by `python -m bench` (`make bench`): the latest whole run of each benchmark. Compare ratios,
for seconds belong to the machine. Earlier runs are in the history of this file. What a GPU showed
is in `bench/gpu/results` ([GPU validation](../docs/adr/gpu-validation.md)). The rows of
`harness, before` are from the last version that timed a submission alone, those of `pipeline,
before` from the last that decided runs timed without a yardstick one at a time. The two
parts of `scale` ran one after the other, each whole, with a higher scheduling priority than other
work on the machine ([scaling](../docs/operating/scaling.md)).

"""
# What a benchmark found before its subject was rewritten; a later run prints it beside its own.
BEFORE = "{name}, before"
# These rows stay: those of `bench/gpu/first_hour.sh`, which people paste here, and those of before.
KEPT = ("gpu", BEFORE.format(name="harness"), BEFORE.format(name="pipeline"))
MISSED = "\n## Goals that are missed\n\n"


def write(found: Mapping[str, Sequence[Figure]], order: Sequence[str], page: Path = PAGE) -> None:
    """Put the figures of the benchmarks that ran in the place of their earlier ones."""
    rows, notes = _read(page)
    where = (load(), datetime.now(UTC).date().isoformat(), _commit())
    for name, figures in found.items():
        rows[name] = [_row(name, figure, where) for figure in figures]
        notes[name] = _notes(name, figures)
    lines = [_line(COLUMNS), _line(["---"] * len(COLUMNS))]
    lines += [row for name in (*order, *KEPT) for row in rows.get(name, [])]
    said = [note for name in order for note in notes.get(name, [])]
    text = HEAD + "\n".join(lines) + "\n"
    page.write_text(text + (MISSED + "\n".join(said) + "\n" if said else ""))


def _read(page: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The rows and the notes of each benchmark that are on the page."""
    rows: dict[str, list[str]] = {}
    notes: dict[str, list[str]] = {}
    text = page.read_text() if page.exists() else ""
    if not text.startswith(HEAD):
        return rows, notes
    for line in text.removeprefix(HEAD).splitlines()[2:]:
        if line.startswith("| "):
            rows.setdefault(line.split("|")[1].strip(), []).append(line)
        elif line.startswith("- "):
            notes.setdefault(line[2:].partition(":")[0], []).append(line)
    return rows, notes


def read_before(name: str, page: Path = PAGE) -> dict[str, str]:
    """Return what each figure of a benchmark was before, with date and commit."""
    rows, _ = _read(page)
    cells = [line.strip("|").split("|") for line in rows.get(BEFORE.format(name=name), [])]
    return {
        row[1].strip(): f"{row[2].strip()} ({row[6].strip()}, {row[7].strip()})" for row in cells
    }


def _notes(name: str, figures: Sequence[Figure]) -> list[str]:
    """Why goals are missed, each reason once."""
    missed: dict[str, list[str]] = {}
    for figure in figures:
        if figure.note and not figure.is_met:
            missed.setdefault(figure.note, []).append(figure.name)
    return [f"- {name}: {note} ({'; '.join(names)})" for note, names in missed.items()]


def _row(name: str, figure: Figure, where: Sequence[str]) -> str:
    goal = "" if figure.goal is None else str(figure.goal)
    met = "" if figure.goal is None else ("yes" if figure.is_met else "no")
    return _line([name, figure.name, figure.value, goal, met, *where])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _commit() -> str:
    """The commit that was measured, with a + if files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=GIT_S_MAX)
    return done.stdout.decode().strip() or "unknown"
