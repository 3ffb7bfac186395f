"""The review of a contest's winners: how often their runs were repeated, and what to look at."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from ranker.domain.conclusion import CONFIRMED, SLOWER
from shared.api.contest_standings import ContestResult, DivisionStanding, RepetitionState
from shared.contests.definition import Contest, ContestPlace, has_closed, is_over

# Repetitions of one run that ended without a result, such as by an agent that died.
RESULTLESS_MAX = 3


class Repetition(NamedTuple):
    """A repetition of a winner's run; `text` says what it showed, "" without a result."""

    agent: str
    is_judged: bool
    code: str = ""
    reason: str = ""
    text: str = ""


class RepetitionReview(NamedTuple):
    """How the repetitions of one run stand, in a word and in a sentence."""

    state: RepetitionState
    text: str


def find_winners(
    contest: Contest, places: Iterable[ContestPlace | ContestResult]
) -> frozenset[str]:
    """The contestants on the podium of each division."""
    return frozenset(place.contestant for place in places if place.place <= contest.podium)


def find_leaders(contest: Contest, divisions: Iterable[DivisionStanding]) -> frozenset[str]:
    """The contestants who would be on the podium of each division by a standing."""
    rows = (row for part in divisions for row in part.rows)
    return frozenset(row.contestant for row in rows if row.rank <= contest.podium)


def is_verified_at(contest: Contest, at: datetime, *, is_proposed: bool, is_final: bool) -> bool:
    """Whether the winners' runs are repeated at an instant: after all rounds, until it is final.

    Without results that is until the archive.
    """
    may_change = not is_final and (is_proposed or not is_over(contest, at))
    return has_closed(contest, at) and may_change


def find_free_agents(
    own_agent: str, earlier: Sequence[Repetition], agents: Collection[str]
) -> list[str]:
    """The agents that have not run a submission yet: neither first nor as a repetition."""
    used = {own_agent, *(it.agent for it in earlier if it.text)}
    return sorted(set(agents) - used)


def can_repeat(
    own_agent: str, earlier: Sequence[Repetition], agents: Collection[str], count: int
) -> bool:
    """Whether to repeat a run on one more of `count` agents; one repetition is open at a time."""
    results = [it for it in earlier if it.text]
    resultless = [it for it in earlier if it.is_judged and not it.text]
    return (
        len(results) < count
        and len(resultless) < RESULTLESS_MAX
        and all(it.is_judged for it in earlier)
        and bool(find_free_agents(own_agent, earlier, agents))
    )


def review_repetitions(
    own_agent: str, earlier: Sequence[Repetition], agents: Collection[str], count: int, gpu: str
) -> RepetitionReview:
    """Say how the repetitions of a run stand; `agents` are the enrolled ones of its GPU type.

    >>> done = [Repetition("a2", True, "confirmed", text="confirmed on agent a2")]
    >>> review_repetitions("a1", done, ["a1", "a2"], 1, "CPU").text
    'confirmed by 1 of 1 agents (a2)'
    >>> review_repetitions("a1", done, ["a1", "a2"], 3, "CPU")
    RepetitionReview(state='incomplete', text='confirmed by 1 of 3 agents (a2); no other agent of CPU can repeat it')
    >>> slow = Repetition("a3", True, "slower", text="not confirmed: 5 % slower on agent a3")
    >>> review_repetitions("a1", [*done, slow], ["a1"], 2, "CPU")
    RepetitionReview(state='differs', text='confirmed by 1 of 2 agents (a2); not confirmed: 5 % slower on agent a3')
    """  # noqa: E501  (an output)
    results = [it for it in earlier if it.text]
    confirmed = [it for it in results if it.code == CONFIRMED]
    others = [it for it in results if it.code != CONFIRMED]
    names = f" ({', '.join(it.agent for it in confirmed)})" if confirmed else ""
    texts = [f"confirmed by {len(confirmed)} of {count} agents{names}", *(it.text for it in others)]
    state: RepetitionState
    if any(it.code != SLOWER for it in others):
        state = "failed"
    elif others:
        state = "differs"
    else:
        state = "confirmed"
    if len(results) < count:
        is_waiting = not all(it.is_judged for it in earlier) or can_repeat(
            own_agent, earlier, agents, count
        )
        if state == "confirmed":
            state = "waiting" if is_waiting else "incomplete"
        texts.append("waiting for an agent" if is_waiting else _find_obstacle(earlier, gpu))
    return RepetitionReview(state, "; ".join(texts))


def _find_obstacle(earlier: Sequence[Repetition], gpu: str) -> str:
    resultless = [it for it in earlier if it.is_judged and not it.text]
    if len(resultless) < RESULTLESS_MAX:
        return f"no other agent of {gpu} can repeat it"
    last = resultless[-1]
    return f"{len(resultless)} repetitions had no result, the last one {last.code}: {last.reason}"
