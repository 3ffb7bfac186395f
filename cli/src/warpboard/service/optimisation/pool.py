"""The kernels of a run of the optimiser, with what their evaluations showed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from warpboard.optimiser_files import Message, Origin, Stage, TraceLine


@dataclass(frozen=True)
class Proposal:
    """A kernel to evaluate, and where it comes from; `submission` is the number of one in use."""

    origin: Origin
    name: str
    source: str
    parents: tuple[int, ...] = ()
    submission: int = 0
    values: Mapping[str, str] = field(default_factory=dict)
    prompt: tuple[Message, ...] = ()
    completion: str = ""
    model: str = ""
    tokens: int = 0


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel of a run, with the lines of its evaluations, the newest last."""

    id: int
    round: int
    proposal: Proposal
    lines: list[TraceLine] = field(default_factory=list)

    def result(self, stage: Stage) -> TraceLine | None:
        """Return the newest evaluation of a stage."""
        return next((line for line in reversed(self.lines) if line.stage == stage), None)

    def attempts(self, stage: Stage) -> int:
        """Return how often a stage was evaluated."""
        return sum(line.stage == stage for line in self.lines)

    def low_at(self, stage: Stage) -> float | None:
        """Return the lower bound of the speed-up in a stage; None without a time that counts."""
        result = self.result(stage)
        return result.low if result else None

    @property
    def low(self) -> float | None:
        """The lower bound of the speed-up by the most precise time that counts."""
        timed = self.timed
        return timed.low if timed else None

    @property
    def estimate(self) -> float | None:
        """The lower bound by the most precise time, also if all of them are noisy."""
        results = (self.timed, self.result("benchmark"), self.result("screen"))
        known = [line.estimate for line in results if line and line.estimate is not None]
        return known[0] if known and self.has_passed else None

    @property
    def timed(self) -> TraceLine | None:
        """The most precise evaluation with a time that counts; None if a later check failed."""
        if not self.has_passed:
            return None
        results = (self.result("benchmark"), self.result("screen"))
        return next((line for line in results if line and line.low is not None), None)

    @property
    def has_passed(self) -> bool:
        """Whether the kernel is correct, by the newest evaluation with a verdict."""
        judged = [line for line in self.lines if line.verdict]
        return bool(judged) and judged[-1].has_passed


class Pool:
    """All kernels of a run: the first is the start."""

    def __init__(self, lines: Iterable[TraceLine] = ()) -> None:
        """Restore the kernels from a trace."""
        self.candidates: list[Candidate] = []
        by_id: dict[int, Candidate] = {}
        for line in lines:
            if line.candidate not in by_id:
                by_id[line.candidate] = Candidate(line.candidate, line.round, _proposal_of(line))
                self.candidates.append(by_id[line.candidate])
            by_id[line.candidate].lines.append(line)
        self._sources = {candidate.proposal.source for candidate in self.candidates}

    def knows(self, source: str) -> bool:
        """Return whether a kernel is in the pool."""
        return source in self._sources

    def add(self, proposal: Proposal, round_: int) -> Candidate:
        """Add a kernel."""
        ids = (candidate.id for candidate in self.candidates)
        candidate = Candidate(max(ids, default=-1) + 1, round_, proposal)
        self.candidates.append(candidate)
        self._sources.add(proposal.source)
        return candidate

    def forget_unevaluated(self) -> None:
        """Remove kernels that were never evaluated, because the budget was used up."""
        self.candidates = [candidate for candidate in self.candidates if candidate.lines]
        self._sources = {candidate.proposal.source for candidate in self.candidates}

    @property
    def start(self) -> Candidate:
        """The kernel that the run began with."""
        return self.candidates[0]

    @property
    def newest_round(self) -> Sequence[Candidate]:
        """The kernels of the newest round."""
        newest = max((candidate.round for candidate in self.candidates), default=0)
        return [candidate for candidate in self.candidates if candidate.round == newest]

    def fastest(self) -> list[Candidate]:
        """Return the kernels with a time, best first by the lower bound of their speed-up.

        If no time counts, those with a noisy one.
        """
        timed = [candidate for candidate in self.candidates if candidate.low is not None]
        if not timed:
            timed = [candidate for candidate in self.candidates if candidate.estimate is not None]
        return sorted(timed, key=lambda candidate: -(candidate.low or candidate.estimate or 0.0))

    def best(self) -> Candidate | None:
        """Return the proposal to confirm: precisely timed, and with the best lower bound.

        Where that is the start or none, it is the one with the best rough or noisy time above that
        of the start, since the confirmation decides. If the start does not pass, one that does is
        better, even without a time. A kernel that was retrieved is somebody's submission already,
        so it is only a parent.
        """
        own = [
            candidate
            for candidate in self.candidates
            if candidate.proposal.origin != "retrieved" and candidate.has_passed
        ]
        timed = [candidate for candidate in own if candidate.low_at("benchmark")]
        best = max(timed, key=lambda kernel: kernel.low_at("benchmark") or 0.0, default=None)
        if best is not None and best is not self.start:
            return best
        least = (self.start.estimate or 0.0) if self.start.has_passed else -1.0
        doubtful = [kernel for kernel in own if (kernel.estimate or 0.0) > least]
        return max(doubtful, key=lambda kernel: kernel.estimate or 0.0, default=best)

    def submitted_parent(self, candidate: Candidate) -> int:
        """Return the number of the nearest ancestor that is a submission; 0 without one."""
        by_id = {other.id: other for other in self.candidates}
        generation = [candidate]
        visited: set[int] = set()
        while generation:
            for member in generation:
                if member.proposal.submission:
                    return member.proposal.submission
            visited |= {member.id for member in generation}
            parents = dict.fromkeys(
                parent for member in generation for parent in member.proposal.parents
            )
            generation = [by_id[id_] for id_ in parents if id_ in by_id and id_ not in visited]
        return 0


def _proposal_of(line: TraceLine) -> Proposal:
    return Proposal(
        line.origin,
        line.name,
        line.source,
        tuple(line.parents),
        line.submission,
        line.values,
        tuple(line.prompt),
        line.completion,
        line.model,
        line.tokens,
    )
