"""Where a submission or a run is, in a sentence: the one that every place shows."""

from shared.telling.progress import (
    News,
    news,
    step,
    waiting,
)

__all__ = [
    "News",
    "news",
    "step",
    "waiting",
]
