"""Kernels to begin with beside the start: of a folder, or of a platform's archive."""

from collections.abc import AsyncIterator
from pathlib import Path

from shared.api.archive import ArchiveSearch
from shared.api.submissions import FullSubmission
from shared.errors import Refused
from shared.problems.submission_file import SUFFIXES, language_of, suffix
from warpboard.api import Api
from warpboard.files import decode_source, read_source
from warpboard.service.optimisation.pool import Proposal

KERNELS_MAX = 8
SEARCHED_CHARS_MAX = 64 * 1024


def read_kernels(folder: Path, name: str) -> list[Proposal]:
    """Return the kernels of a folder in the language of a file, in the order of their names.

    Raises Refused if there is none.
    """
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    kernels = [path for path in paths if path.name.endswith(suffix(name))][:KERNELS_MAX]
    if not kernels:
        reason = f"--kernels: {folder} has no {suffix(name)} file: name a folder of kernels"
        raise Refused("no_kernels", reason, "--kernels")
    return [Proposal("retrieved", path.name, decode_source(read_source(path))) for path in kernels]


async def search_kernels(
    api: Api, start: Proposal, problem: str, gpu: str | None, *, is_own_only: bool
) -> AsyncIterator[Proposal]:
    """Yield kernels of the archive that resemble the start, the best match first.

    They are in its language; those of other problems are left out with `is_own_only`, and have no
    number here, because they cannot be parents of a submission. Raises Refused and Failed.
    """
    body: dict[str, object] = {
        "source": start.source[:SEARCHED_CHARS_MAX],
        "language": language_of(start.name),
        "limit": KERNELS_MAX,
    }
    body |= {"problem": problem} if is_own_only else {}
    body |= {"gpu": gpu} if gpu else {}
    answer = await api.act(ArchiveSearch, "POST", "archive", "search", body=body)
    for kernel in answer.value.items:
        full = (await api.get(FullSubmission, "submissions", kernel.number, source=True)).value
        if full.source:
            file = f"{kernel.number}{SUFFIXES[language_of(full.name or start.name)]}"
            number = kernel.number if kernel.problem == problem else 0
            yield Proposal("retrieved", file, full.source, submission=number)
