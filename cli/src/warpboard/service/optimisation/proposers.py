"""What proposes kernels: a search over declared constants, evolution, and a model."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from random import Random
from string import Template as TextTemplate
from typing import Protocol

from shared.errors import Failed, Refused
from warpboard.domain.evolution import Parent, cross, mutate
from warpboard.domain.tuning import Template, neighbours, read_template
from warpboard.files import read_template as read_text
from warpboard.model_endpoint import ModelEndpoint
from warpboard.optimiser_files import Message
from warpboard.service.optimisation.pool import Candidate, Pool, Proposal

# Of a round of a search, this share is near the best kernel, the rest anywhere.
_NEAR_SHARE = 0.5
# Evolution has children of so many of the fastest, and mostly of two parents.
_PARENTS_MAX = 6
# Of those without a time that counts, so many of the first, which begin with the start.
_UNTIMED_MAX = 3
_CROSSOVER_SHARE = 0.6
_ATTEMPTS_PER_CHILD = 40
# Larger spaces are sampled.
_LISTED_MAX = 100_000
_REQUESTS_AT_ONCE = 4
# What a prompt has at most: of the fastest kernels and of others, and characters of each.
_SHOWN_FASTEST, _SHOWN_RETRIEVED, _SHOWN_FAILED = 2, 3, 6
_SOURCE_CHARS_MAX, _REASON_CHARS_MAX = 24_000, 400
_BLOCK = re.compile(r"^```[^\n`]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _make_rng(seed: int, pool: Pool) -> Random:
    """Return a generator that draws something else in each round."""
    return Random(f"{seed}-{len(pool.candidates)}")  # noqa: S311  (nothing secret)


class Proposer(Protocol):
    """Proposes kernels that the pool does not have."""

    async def propose(self, pool: Pool, count: int) -> list[Proposal]:
        """Return at most so many; none if it has nothing more to propose."""


class SearchProposer:
    """Tries values of the declared constants: those near the best kernel, and random others.

    A space that fits the budget is tried whole.
    """

    def __init__(self, template: Template, seed: int) -> None:
        self._template, self._seed = template, seed

    async def propose(self, pool: Pool, count: int) -> list[Proposal]:
        """Return kernels with other values."""
        fastest = [kernel for kernel in pool.fastest() if kernel.proposal.values]
        parent = fastest[0] if fastest else pool.start
        chosen: dict[str, Mapping[str, str]] = {}
        near = neighbours(self._template, parent.proposal.values) if fastest else iter(())
        anywhere = self._anywhere(_make_rng(self._seed, pool), _ATTEMPTS_PER_CHILD * count)
        for settings, most in ((near, count * _NEAR_SHARE), (anywhere, count)):
            for values in settings:
                if len(chosen) >= most:
                    break
                source = self._template.fill(values)
                if not pool.knows(source):
                    chosen.setdefault(source, values)
        name = self._template.name
        return [
            Proposal("search", name, source, (parent.id,), values=values)
            for source, values in chosen.items()
        ]

    def _anywhere(self, rng: Random, draws: int) -> Iterator[Mapping[str, str]]:
        """Yield every setting of a small space in random order, and some of a large one."""
        if self._template.size <= _LISTED_MAX:
            settings = list(self._template.settings())
            yield from rng.sample(settings, len(settings))
        else:
            for _ in range(draws):
                yield {own.name: rng.choice(own.values) for own in self._template.tunables}


class EvolutionProposer:
    """Crosses and mutates the fastest kernels, of which some may have been retrieved."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    async def propose(self, pool: Pool, count: int) -> list[Proposal]:
        """Return children that differ from every kernel of the pool."""
        rng = _make_rng(self._seed, pool)
        parents = _choose_parents(pool)
        proposals: dict[str, Proposal] = {}
        for _ in range(_ATTEMPTS_PER_CHILD * count):
            if len(proposals) >= count or not parents:
                break
            child = _breed(parents, rng)
            if child is not None and not pool.knows(child.source):
                proposals.setdefault(child.source, child)
        return list(proposals.values())


def _choose_parents(pool: Pool) -> list[Candidate]:
    """Return the fastest kernels, and the fastest retrieved one, which may bring other code.

    Behind them are some of those without a time that counts: on a busy machine they may be the only
    ones that have anything to change.
    """
    fastest = pool.fastest()
    retrieved = [kernel for kernel in fastest if kernel.proposal.origin == "retrieved"]
    untimed = [kernel for kernel in pool.candidates if kernel.has_passed and kernel.low is None]
    return _ids([*fastest[:_PARENTS_MAX], *retrieved[:1], *untimed[:_UNTIMED_MAX]])


def _ids(candidates: Sequence[Candidate]) -> list[Candidate]:
    return list({candidate.id: candidate for candidate in candidates}.values())


def _breed(parents: Sequence[Candidate], rng: Random) -> Proposal | None:
    # Of two, the better one: the list is sorted.
    first = parents[min(rng.randrange(len(parents)) for _ in range(2))]
    others = [parent for parent in parents if parent is not first]
    ids: tuple[int, ...] = (first.id,)
    if others and rng.random() < _CROSSOVER_SHARE:
        second = rng.choice(others)
        source = cross(_parent(first), _parent(second), rng)
        ids = (first.id, second.id)
    else:
        source = mutate(_parent(first), rng)
    if source is None:
        return None
    name = first.proposal.name
    return Proposal("evolution", name, source, ids, values=declared_values(name, source))


def _parent(candidate: Candidate) -> Parent:
    return Parent(candidate.proposal.name, candidate.proposal.source)


def declared_values(name: str, source: str) -> dict[str, str]:
    """Return the values of the constants that a kernel declares; none if its header is wrong."""
    try:
        return dict(read_template(name, source).values)
    except Refused:
        return {}


@dataclass(frozen=True)
class Task:
    """What a model is told of a problem."""

    title: str
    statement: str
    reference: str
    device: str


class ModelProposer:
    """Asks a model for better kernels, and shows it what was tried."""

    def __init__(self, endpoint: ModelEndpoint, task: Task, tokens_max: int) -> None:
        self._endpoint, self._task, self._tokens_max = endpoint, task, tokens_max
        self._at_once = asyncio.Semaphore(_REQUESTS_AT_ONCE)
        # Those of answers that became no kernel of the pool, because it has the same one already.
        self._repeated_tokens = 0

    async def propose(self, pool: Pool, count: int) -> list[Proposal]:
        """Return the kernels in the model's answers; none once its tokens are used up.

        Raises Refused, and Failed if no request is answered.
        """
        used = sum(kernel.proposal.tokens for kernel in pool.candidates)
        if used + self._repeated_tokens >= self._tokens_max:
            return []
        parents = pool.fastest()[:1] or [pool.start]
        prompt = make_prompt(self._task, pool, parents[0])
        requests = (self._ask(prompt, parents[0]) for _ in range(count))
        answers = await asyncio.gather(*requests, return_exceptions=True)
        proposals = [answer for answer in answers if isinstance(answer, Proposal)]
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in errors:
            if not proposals or not isinstance(error, Failed):
                raise error
        sources = {
            proposal.source: proposal for proposal in proposals if not pool.knows(proposal.source)
        }
        new = list(sources.values())
        self._repeated_tokens += _count_tokens(proposals) - _count_tokens(new)
        return new

    async def _ask(self, prompt: tuple[Message, ...], parent: Candidate) -> Proposal:
        async with self._at_once:
            answer = await self._endpoint.complete(prompt)
        return Proposal(
            "model",
            parent.proposal.name,
            extract_source(answer.text),
            (parent.id,),
            prompt=prompt,
            completion=answer.text,
            model=self._endpoint.model,
            tokens=answer.tokens,
        )


def _count_tokens(proposals: Sequence[Proposal]) -> int:
    return sum(proposal.tokens for proposal in proposals)


def extract_source(text: str) -> str:
    r"""Return the last block of code in an answer; without one, the whole answer.

    >>> extract_source("Faster:\n```python\nx = 1\n```\nDone.")
    'x = 1\n'
    """
    blocks = _BLOCK.findall(text)
    return str(blocks[-1]) if blocks else text


def make_prompt(task: Task, pool: Pool, current: Candidate) -> tuple[Message, ...]:
    """Return the messages that ask for a better kernel than the current one.

    A start that does not pass, such as a PyTorch module, is to be translated first.
    """
    others = [kernel for kernel in pool.fastest() if kernel.id != current.id][: _SHOWN_FASTEST - 1]
    retrieved = [
        kernel
        for kernel in pool.candidates
        if kernel.proposal.origin == "retrieved" and kernel.has_passed and kernel.id != current.id
    ][:_SHOWN_RETRIEVED]
    failed = [
        kernel
        for kernel in pool.candidates
        if kernel.lines and not kernel.has_passed and kernel.id != current.id
    ][-_SHOWN_FAILED:]
    examples = [_describe_kernel(kernel) for kernel in _ids([*others, *retrieved])]
    failures = [f"- {_describe_result(kernel)}" for kernel in failed]
    goal = "faster" if current.has_passed else "translated"
    text = TextTemplate(read_text("propose.md")).substitute(
        title=task.title,
        statement=task.statement[:_SOURCE_CHARS_MAX],
        reference=task.reference[:_SOURCE_CHARS_MAX],
        device=task.device,
        goal=_GOALS[goal],
        current=_describe_kernel(current),
        examples="\n\n".join(examples) or "None yet.",
        failures="\n".join(failures) or "None yet.",
        language=PurePath(current.proposal.name).suffix.removeprefix("."),
    )
    system, _, user = text.partition("\n---\n")
    return Message("system", system.strip()), Message("user", user.strip())


_GOALS = {
    "faster": "Write a kernel that computes the same and is faster than the current kernel.",
    "translated": "The current file does not pass yet. Translate it into a kernel that does: "
    "a file that defines what the problem asks for.",
}


def _describe_kernel(candidate: Candidate) -> str:
    source = candidate.proposal.source[:_SOURCE_CHARS_MAX].rstrip()
    return f"{_describe_result(candidate)}\n```\n{source}\n```"


def _describe_result(candidate: Candidate) -> str:
    if not candidate.lines:
        return f"Kernel {candidate.id}: not evaluated."
    line = candidate.lines[-1]
    timed = candidate.timed
    if timed is not None:
        return f"Kernel {candidate.id}: passed, {timed.speedup:.3g} times as fast as the yardstick."
    reason = line.reason[:_REASON_CHARS_MAX]
    return f"Kernel {candidate.id}: {line.verdict or 'no verdict'}: {reason}"
