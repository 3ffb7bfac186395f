"""Finds the earlier submission of whose source another one is nearly a copy."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ranker.domain.kernel_text import SIGNATURE_LENGTH
from shared.api.lineage import SIMILARITY_MIN

# A submission is compared with so many before it, the newest.
CANDIDATES_MAX = 500


@dataclass(frozen=True)
class SignedSource:
    """A ranked submission; `source` is what its runs are pooled by, and `signature` its MinHash."""

    number: int
    account: str
    gpu: str
    source: str
    signature: Sequence[int]


class NearCopy(NamedTuple):
    """The number of an earlier submission, and the share of equal code, from 0 to 1."""

    parent: int
    similarity: float


class NearCopyFinder:
    """Compares the ranked submissions to one problem, in their order, each with those before it.

    What it finds depends on these submissions alone. One that only repeats a source of the same
    participant comes from what that source came from.
    """

    def __init__(self) -> None:
        # Importing it takes as long as a hundred comparisons.
        import numpy as np

        self._np = np
        self._count = 0
        self._numbers = np.zeros(CANDIDATES_MAX, np.int64)
        self._owners = np.zeros(CANDIDATES_MAX, np.uint64)
        self._gpus = np.zeros(CANDIDATES_MAX, np.uint64)
        self._signatures = np.zeros((CANDIDATES_MAX, SIGNATURE_LENGTH), np.uint32)

    def add(self, submission: SignedSource) -> NearCopy | None:
        """Add the next submission, and return what it is nearly a copy of, if anything."""
        if not submission.signature:
            return None
        owner = _hash(submission.account, submission.source)
        gpu, signature = _hash(submission.gpu), self._np.array(submission.signature, "uint32")
        copy = self._find(submission.number, owner, gpu, signature)
        place = self._count % CANDIDATES_MAX
        self._numbers[place], self._owners[place] = submission.number, owner
        self._gpus[place], self._signatures[place] = gpu, signature
        self._count += 1
        return copy

    def _find(self, number: int, owner: int, gpu: int, signature: object) -> NearCopy | None:
        """The nearest; of equally near ones one on the same GPU type, then the newest."""
        np, known = self._np, min(self._count, CANDIDATES_MAX)
        numbers, owners = self._numbers[:known], self._owners[:known]
        own = numbers[owners == np.uint64(owner)]
        first = int(own.min()) if len(own) else number
        equal = (self._signatures[:known] == signature).sum(axis=1)
        equal[numbers >= first] = 0
        highest = int(equal.max(initial=0))
        if highest < SIMILARITY_MIN * SIGNATURE_LENGTH:
            return None
        nearest = np.flatnonzero(equal == highest)
        there = nearest[self._gpus[nearest] == np.uint64(gpu)]
        parent = int(numbers[there if len(there) else nearest].max())
        return NearCopy(parent, highest / SIGNATURE_LENGTH)


def _hash(*words: str) -> int:
    return int.from_bytes(hashlib.sha256("\n".join(words).encode()).digest()[:8])
