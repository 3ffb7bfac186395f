"""What became of a submission, whole: a short card, and all of it as a file."""

from dataclasses import dataclass

from discord_edge.domain.wording import escaped, fenced
from shared.telling.answers import Case, Submission
from shared.telling.outcome import ending
from shared.telling.units import harmless, interval_text, time_text

GREEN, RED, GREY = 0x2E8B57, 0xC0392B, 0x7F8C8D
CARD_MAX = 1800
CASES_MAX = 12
TITLE_MAX = 250


@dataclass(frozen=True)
class Card:
    """An embed as plain data, and a file beside it where it says more."""

    title: str
    body: str
    colour: int = GREY
    footer: str = ""
    file: tuple[str, bytes] | None = None


def is_good(found: Submission) -> bool:
    """Whether its owner may be glad: it passed, and in mode ranked it counts."""
    return found.outcome == "passed" and (found.mode != "ranked" or found.is_eligible)


def headline(found: Submission) -> str:
    """How it ended, in a line."""
    verdict = escaped(found.verdict or found.outcome or found.state, 60)
    ranking = found.ranking
    score = f", score {time_text(ranking.score_us)}" if ranking and ranking.score_us else ""
    rank = f", rank {ranking.rank}" if ranking and ranking.rank else ""
    return f"{verdict}{score}{rank}"


def report(found: Submission) -> Card:
    """The report on one GPU type."""
    lines = ending(found)
    cases = [_case(one) for one in found.cases]
    shown = [*lines[:1], *_cases(found.cases), *lines[1:]]
    short = "\n".join(shown)
    is_cut = len(short) > CARD_MAX or len(cases) > CASES_MAX
    log = found.log_tail or found.log_head
    whole = "\n".join([*lines, "", *cases, *(["", "it printed:", harmless(log)] if log else [])])
    colour = GREEN if is_good(found) else RED
    return Card(
        title=f"#{found.number} {escaped(found.problem, 100)} on {escaped(found.gpu, 40)}",
        body=fenced(short if len(short) <= CARD_MAX else short[: CARD_MAX - 1] + "…"),
        colour=colour,
        footer=f"submission {found.number}" + (" · all of it is in the file" if is_cut else ""),
        file=(f"report-{found.number}.txt", whole.encode()) if is_cut or log else None,
    )


def _cases(cases: list[Case]) -> list[str]:
    """The first cases, those that failed before the others, and how many there are."""
    if not cases:
        return []
    passed = sum(one.verdict == "passed" for one in cases)
    order = sorted(cases, key=lambda one: one.verdict == "passed")
    more = len(cases) - CASES_MAX
    rest = [f"  … {more} more"] if more > 0 else []
    return [f"passed {passed}/{len(cases)}", *map(_case, order[:CASES_MAX]), *rest]


def _case(case: Case) -> str:
    name = "a hidden case" if case.is_hidden else harmless(case.name)
    took = f" {time_text(case.time_us)}" if case.time_us is not None else ""
    sure = f" ({interval_text(case.interval_us)})" if case.interval_us else ""
    mark = "✅" if case.verdict == "passed" else "❌"
    return f"  {mark} {case.stage} {name}: {harmless(case.verdict)}{took}{sure}"[:200]
