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
    api: Api, source: str, name: str, problem: str | None, gpu: str | None
) -> AsyncIterator[Proposal]:
    """Yield kernels of the archive that resemble a source, the best match first.

    They are of one problem, or of any, and in the language of the file `name`. Raises Refused and
    Failed.
    """
    body: dict[str, object] = {
        "source": source[:SEARCHED_CHARS_MAX],
        "language": language_of(name),
        "limit": KERNELS_MAX,
    }
    body |= {key: value for key, value in (("problem", problem), ("gpu", gpu)) if value}
    answer = await api.act(ArchiveSearch, "POST", "archive", "search", body=body)
    for kernel in answer.value.items:
        full = (await api.get(FullSubmission, "submissions", kernel.number, source=True)).value
        if full.source:
            file = f"{kernel.number}{SUFFIXES[language_of(full.name or name)]}"
            yield Proposal("retrieved", file, full.source, submission=kernel.number)
