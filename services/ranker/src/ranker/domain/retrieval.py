"""Ranks the kernels of the archive for a query, and folds near-duplicates."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ranker.domain.kernel_text import KernelText, similarity

# BM25 with its usual constants; a word that a query repeats counts as the root of its count.
K1, B = 1.2, 0.75
REPEATS_MAX = 3
SPEED_WEIGHT = 0.1
# Kernels of one problem and GPU type whose signatures agree in this share are one line.
DUPLICATE_MIN = 0.85
WORDS_SHOWN, TRIGRAM = 4, 3
CORRECTION_MIN = 0.4


class Parts(NamedTuple):
    """The parts of a score, each from 0 to 1, or what each of them weighs.

    The words of a kernel, those of its problem's texts, those of the problem's texts and all its
    kernels together, what both compute, and equal code.
    """

    words: float
    problem: float
    kernels: float
    operations: float
    code: float

    def weigh(self, weights: "Parts") -> float:
        """The score with these weights."""
        return sum(part * weight for part, weight in zip(self, weights, strict=True))


# A kernel in another language shares few words with the query, but its problem's other kernels do:
# without that part, recall in `bench.retrieval` is 0.1 lower [measured]. The weights are those that
# do best there on one half of the families; the other half is what it reports.
WEIGHTS = Parts(words=0.3, problem=1.0, kernels=3.0, operations=1.0, code=0.1)


@dataclass(frozen=True)
class Kernel:
    """A kernel that may match, `speed` from 0 to 1 for the fastest of its leaderboard."""

    number: int
    problem: str
    gpu: str
    text: KernelText
    speed: float = 0.0


@dataclass(frozen=True)
class Match:
    """A kernel with its score, and what it has in common with the query."""

    kernel: Kernel
    score: float
    code: float = 0.0
    operations: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    # Numbers of near-duplicates that are not listed themselves.
    copies: list[int] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """Why it matches, for a person."""
        parts = []
        if self.code >= CORRECTION_MIN:
            parts.append(f"{self.code:.0%} of the code is alike")
        if self.operations:
            parts.append(f"same operations: {', '.join(self.operations)}")
        if self.words:
            parts.append(f"words in common: {', '.join(self.words)}")
        return "; ".join(parts)


def rank(
    query: KernelText, kernels: Sequence[Kernel], problems: Mapping[str, KernelText]
) -> list[Match]:
    """Rank kernels for a query, the best first; those that have nothing in common are left out."""
    matches = []
    for kernel, parts in zip(kernels, compare(query, kernels, problems), strict=True):
        score = parts.weigh(WEIGHTS)
        if score:
            problem = problems.get(kernel.problem)
            alike = tuple(sorted(query.operations & _operations(kernel, problem)))
            common = _common_words(query, kernel.text, problem)
            score += SPEED_WEIGHT * kernel.speed
            matches.append(Match(kernel, score, parts.code, alike, common))
    return sorted(matches, key=lambda match: (-match.score, match.kernel.number))


def compare(
    query: KernelText, kernels: Sequence[Kernel], problems: Mapping[str, KernelText]
) -> list[Parts]:
    """The parts of the score of each kernel."""
    own = _normalize(score_words(query.terms, [kernel.text.terms for kernel in kernels]))
    shared = rank_problems(query, problems)
    by_problem = _rank_with_kernels(query, kernels, problems)
    return [
        Parts(
            words=words,
            problem=shared.get(kernel.problem, 0.0),
            kernels=by_problem[kernel.problem],
            operations=_cosine(query.operations, _operations(kernel, problems.get(kernel.problem))),
            code=similarity(query.signature, kernel.text.signature),
        )
        for kernel, words in zip(kernels, own, strict=True)
    ]


def _operations(kernel: Kernel, problem: KernelText | None) -> frozenset[str]:
    return kernel.text.operations | (problem.operations if problem else frozenset())


def _rank_with_kernels(
    query: KernelText, kernels: Sequence[Kernel], problems: Mapping[str, KernelText]
) -> dict[str, float]:
    """How well each problem matches with the words of all its kernels, from 0 to 1."""
    terms: dict[str, Counter[str]] = {}
    for kernel in kernels:
        if kernel.problem not in terms:
            problem = problems.get(kernel.problem)
            terms[kernel.problem] = Counter(problem.terms if problem else {})
        terms[kernel.problem].update(kernel.text.terms)
    scores = _normalize(score_words(query.terms, list(terms.values())))
    return dict(zip(terms, scores, strict=True))


def rank_problems(query: KernelText, problems: Mapping[str, KernelText]) -> dict[str, float]:
    """How well the words of each problem match, from 0 to 1 for the best."""
    names = sorted(problems)
    scores = _normalize(score_words(query.terms, [problems[name].terms for name in names]))
    return dict(zip(names, scores, strict=True))


def fold_duplicates(matches: Sequence[Match]) -> list[Match]:
    """Leave the first of near-duplicates, with the numbers of the others in `copies`."""
    groups: dict[tuple[str, str], list[Match]] = {}
    folded = []
    for match in matches:
        kernel = match.kernel
        group = groups.setdefault((kernel.problem, kernel.gpu), [])
        original = next((first for first in group if _are_alike(first.kernel, kernel)), None)
        if original is not None:
            original.copies.append(kernel.number)
            continue
        group.append(match)
        folded.append(match)
    return folded


def _are_alike(first: Kernel, second: Kernel) -> bool:
    return similarity(first.text.signature, second.text.signature) >= DUPLICATE_MIN


def correct_words(query: KernelText, known: Sequence[Mapping[str, int]]) -> KernelText:
    """Add to each word that no problem has the known word with the most equal trigrams.

    >>> text = KernelText({"sofmax": 1}, frozenset(), ())
    >>> dict(correct_words(text, [{"softmax": 3, "row": 1}]).terms)
    {'sofmax': 1, 'softmax': 1}
    """
    vocabulary = {word: _trigrams(word) for terms in known for word in terms}
    terms = dict(query.terms)
    for word, count in query.terms.items():
        if word in vocabulary or not vocabulary:
            continue
        own = _trigrams(word)
        scores = {other: _jaccard(own, trigrams) for other, trigrams in vocabulary.items()}
        closest = max(sorted(scores), key=lambda other: scores[other])
        if scores[closest] >= CORRECTION_MIN:
            terms[closest] = terms.get(closest, 0) + count
    return KernelText(terms, query.operations, query.signature)


def score_words(query: Mapping[str, int], texts: Sequence[Mapping[str, int]]) -> list[float]:
    """The BM25 score of each text."""
    frequency = Counter(word for text in texts for word in text)
    lengths = [sum(text.values()) for text in texts]
    average = sum(lengths) / len(lengths) if sum(lengths) else 1.0
    weights = {
        word: math.sqrt(min(count, REPEATS_MAX))
        * math.log(1 + (len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
        for word, count in query.items()
        if word in frequency
    }
    return [
        sum(
            weight * text[word] * (K1 + 1) / (text[word] + K1 * (1 - B + B * length / average))
            for word, weight in weights.items()
            if word in text
        )
        for text, length in zip(texts, lengths, strict=True)
    ]


def _normalize(scores: Sequence[float]) -> list[float]:
    highest = max(scores, default=0.0)
    return [score / highest if highest else 0.0 for score in scores]


def _cosine(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / math.sqrt(len(first) * len(second)) if first and second else 0.0


def _common_words(
    query: KernelText, text: KernelText, problem: KernelText | None
) -> tuple[str, ...]:
    """The words that a query shares with a kernel or its problem, the longest first."""
    known = {*text.terms, *(problem.terms if problem else ())}
    return tuple(sorted(known & query.terms.keys(), key=lambda word: (-len(word), word)))[
        :WORDS_SHOWN
    ]


def _trigrams(word: str) -> frozenset[str]:
    padded = f"  {word} "
    return frozenset(padded[at : at + TRIGRAM] for at in range(len(padded) - TRIGRAM + 1))


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second)
