"""A problem as participants read it: what is to be computed, how it is checked and ranked."""

from collections.abc import Iterator
from datetime import tzinfo

from warpboard.domain.deadlines import both
from warpboard.domain.problems import Problem, Rules
from warpboard.domain.units import NOTHING, count_text, harmless, one_line, seconds_text

RANKED_BY = {
    "geom": "the geometric mean of the timed cases",
    "mean": "the mean of the timed cases",
    "last": "the last timed case",
}


def head(found: Problem, zone: tzinfo | None = None) -> Iterator[str]:
    """What a problem is called, where it runs, how it is ranked, until when."""
    yield f"{found.slug}, version {found.number}: {one_line(found.title, 100)}"
    yield f"GPU types: {', '.join(found.gpus) or NOTHING}"
    languages = ", ".join(found.languages) or "python"
    limit = f", at most {found.source_bytes_max:,} bytes" if found.source_bytes_max else ""
    yield f"one file in {languages}{limit}"
    counts = ", ".join(
        count_text(number, what.removesuffix("s")) for what, number in found.cases_count.items()
    )
    yield f"cases: {counts or NOTHING}; ranked by {RANKED_BY.get(found.ranking_by, NOTHING)}"
    if found.budgets_s:
        budgets = (f"{stage} {seconds_text(value)}" for stage, value in found.budgets_s.items())
        yield f"budgets: {', '.join(budgets)}"
    if found.visibility == "closed":
        yield "closed: only who was invited sees it"
    if found.deadline_at is not None:
        yield f"deadline: {both(found.deadline_at, zone)}"
    if found.check.get("state") == "unchecked":
        yield f"not checked: {one_line(str(found.check.get('reason') or NOTHING), 200)}"


def _rules(rules: Rules) -> Iterator[str]:
    """How it is checked, timed and ranked, a line each."""
    said = {
        "score": rules.formula,
        "correct": rules.tolerances,
        "ties": rules.ties,
        "sources": rules.source_policy,
    }
    yield from (f"{what}: {one_line(how, 400)}" for what, how in said.items() if how)
    if rules.roofline:
        work = "; ".join(
            f"{one_line(name, 20)} {one_line(how)}" for name, how in rules.roofline.items()
        )
        yield f"least work: {work}"
    for kind, cases in rules.cases.items():
        names = "; ".join(one_line(str(case.get("name", NOTHING)), 100) for case in cases)
        yield f"{kind}: {names or NOTHING}"


def _licence(found: Problem) -> Iterator[str]:
    """What may be done with what is sent in, and what one accepts before one sends it."""
    assert found.rules is not None
    for what, name in found.rules.licence.items():
        yield f"licence of {one_line(what, 20)}: {one_line(name, 200)}"
    if found.rules.consent:
        what = one_line(found.rules.consent, 100)
        yield f"before you submit, read and accept {what}: warpboard consent {found.slug}"


def text(found: Problem) -> Iterator[str]:
    """What an author says about it; markdown stays as it is."""
    said = found.statement or found.description
    yield from harmless(said).strip().splitlines() or ["its author says nothing more"]
    if found.rules is not None:
        yield ""
        yield from _rules(found.rules)
        yield from _licence(found)
    if found.files:
        names = ", ".join(one_line(one.name, 100) for one in found.files)
        yield ""
        yield f"{count_text(len(found.files), 'file')}: {names}; warpboard init {found.slug}"
