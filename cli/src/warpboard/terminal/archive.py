"""The search of the archive for kernels whose sources one may read."""

from pathlib import Path

import click
from click import IntRange

from shared.api.archive import ArchivedKernel, ArchiveSearch
from shared.errors import Refused
from shared.presentation.units import NO_VALUE, one_line, time_text
from warpboard.api import Api
from warpboard.context import AppContext
from warpboard.domain.output import Table, make_table
from warpboard.terminal import options
from warpboard.terminal.options import api_command

KERNELS_MAX, REASON_CHARS_MAX = 100, 80
SOURCE_CHARS_MAX = 64 * 1024


@api_command(
    "archive search fused softmax --gpu H100",
    "archive search --like module.py --language triton",
    "archive search --like-submission 17",
    parameters=(
        click.argument("words", nargs=-1),
        click.option("--problem", type=options.SLUG, help="Only kernels of this problem."),
        click.option("--operation", metavar="NAME", help="What they compute, such as softmax."),
        click.option("--gpu", metavar="TYPE", help="Only kernels of this GPU type."),
        click.option("--language", metavar="NAME", help="A language or toolchain, such as triton."),
        click.option(
            "--like", type=options.FILE, metavar="FILE", help="A kernel or a module to resemble."
        ),
        click.option(
            "--like-submission", type=IntRange(min=1), metavar="NUMBER", help="The same by number."
        ),
        click.option("--limit", type=IntRange(1, KERNELS_MAX), default=20, show_default=True),
        options.WIDE,
    ),
    access=options.VIEWER,
)
async def search(
    context: AppContext,
    api: Api,
    *,
    words: tuple[str, ...],
    problem: str | None,
    operation: str | None,
    gpu: str | None,
    language: str | None,
    like: Path | None,
    like_submission: int | None,
    limit: int,
) -> int:
    """Find kernels by WORDS or by similarity, the best match first.

    Without both, the kernels with the best speed-up come first. `submission source NUMBER` prints
    the source of one.
    """
    query: dict[str, object] = {
        "q": " ".join(words) or None,
        "source": None if like is None else read_query_source(like),
        "like": like_submission,
        "problem": problem,
        "operation": operation,
        "gpu": gpu,
        "language": language,
        "limit": limit,
    }
    body = {name: value for name, value in query.items() if value is not None}
    answer = await api.act(ArchiveSearch, "POST", "archive", "search", body=body)
    note = "" if answer.value.is_complete else "the newest sources are still being read: ask again"
    return context.show(answer.document, [kernel_table(answer.value.items)], note)


def read_query_source(path: Path) -> str:
    """Read a source to resemble. Raises Refused."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if not 0 < len(text) <= SOURCE_CHARS_MAX:
        reason = f"{path} has {len(text):,} characters; a search takes 1 to {SOURCE_CHARS_MAX:,}"
        raise Refused("bad_source", reason, "like")
    return text


def kernel_table(kernels: list[ArchivedKernel]) -> Table:
    """The kernels that match, with the reason."""
    rows = [
        {
            "number": kernel.number,
            "problem": kernel.problem,
            "GPU type": kernel.gpu,
            "language": " ".join(kernel.toolchains) or kernel.language,
            "time": time_text(kernel.score_us) if kernel.score_us else NO_VALUE,
            "speed-up": speedup_text(kernel),
            "copies": len(kernel.copies) or None,
            "why": one_line(kernel.reason, REASON_CHARS_MAX) or None,
        }
        for kernel in kernels
    ]
    return make_table("kernels", rows, optional=("copies", "why"), extra=("copies", "language"))


def speedup_text(kernel: ArchivedKernel) -> str:
    """Return how many times as fast as what a kernel is."""
    return f"{kernel.speedup:.2f} x {kernel.speedup_over}" if kernel.speedup else NO_VALUE
