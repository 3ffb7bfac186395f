"""What somebody wants to submit: the file, the leaderboard, the GPU types; or why it cannot be."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.errors import Refused
from shared.problems.directives import read_directives
from shared.problems.languages import SUFFIXES

# What ingest would take of any problem; the problem's own limit is ingest's to know.
BYTES_MAX = 4 * 1024 * 1024
NAME_LENGTH_MAX = 100
GPUS_MAX = 25


@dataclass(frozen=True)
class Board:
    """A leaderboard as one submits to it."""

    slug: str
    gpus: tuple[str, ...]
    title: str = ""
    state: str = "active"
    deadline_at: str | None = None
    languages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wish:
    """What is sent to ingest; `case` is the only one to be profiled, from 1 on, 0 for all."""

    problem: str
    mode: str
    gpus: tuple[str, ...]
    name: str
    source: bytes
    case: int = 0


def check_attachment(name: str, size: int) -> None:
    """Refuse a file before it is read.

    >>> check_attachment("kernel.py", 100)
    """
    if not name.endswith(tuple(SUFFIXES.values())):
        ends = ", ".join(SUFFIXES.values())
        raise Refused("bad_file", f"the file's name must end in one of {ends}", "script")
    if len(name) > NAME_LENGTH_MAX:
        what = f"the file's name has {len(name)} characters: at most {NAME_LENGTH_MAX}"
        raise Refused("bad_file", what, "script")
    if not size:
        raise Refused("bad_file", "the file is empty", "script")
    if size > BYTES_MAX:
        what = f"the file has {size:,} bytes: at most {BYTES_MAX:,} are taken"
        raise Refused("source_too_large", what, "script")


def text_of(source: bytes) -> str:
    """A file as text. Errors: Refused `not_utf8`."""
    try:
        return source.decode()
    except UnicodeDecodeError as error:
        what = f"the file is not UTF-8 text: byte {error.start} cannot be read"
        raise Refused("not_utf8", what, "script") from error


def agreed(option: str | None, source: bytes) -> str | None:
    """The leaderboard that option and file name; None if neither does.

    >>> agreed(None, b"#!POPCORN leaderboard sort\\n"), agreed("sort", b"")
    ('sort', 'sort')

    Errors: Refused if they name different ones.
    """
    said = read_directives(text_of(source)).leaderboard
    slug = option.strip().lower() if option else None
    if slug and said and slug != said.lower():
        what = f"the file says `{said}`, you chose `{slug}`: change one of them"
        raise Refused("leaderboard_differs", what, "leaderboard_name")
    return slug or (said.lower() if said else None)


def chosen(option: str | None, source: bytes, board: Board) -> tuple[str, ...]:
    """The GPU types to run on, as the leaderboard writes them; none where one is to choose.

    >>> chosen("cpu", b"", Board("sort", ("CPU", "H100")))
    ('CPU',)
    >>> chosen(None, b"", Board("sort", ("CPU", "H100")))
    ()

    Errors: Refused `unknown_gpu`.
    """
    wanted = option.replace(",", " ").split() if option else []
    wanted = wanted or list(read_directives(text_of(source)).gpus)
    if not wanted:
        return board.gpus if len(board.gpus) == 1 else ()
    known = {one.lower(): one for one in board.gpus}
    for one in wanted:
        if one.lower() not in known:
            what = f"`{board.slug}` takes {', '.join(board.gpus) or 'nothing'}, not `{one[:30]}`"
            raise Refused("unknown_gpu", what, "gpu")
    return tuple(dict.fromkeys(known[one.lower()] for one in wanted))


def matching(typed: str, names: Sequence[str]) -> list[str]:
    """What is offered while something is typed: those that begin so before the others.

    >>> matching("so", ["absolve", "sort", "merge"])
    ['sort', 'absolve']
    """
    low = typed.strip().lower()
    found = [one for one in names if low in one.lower() and len(one) <= 100]
    return sorted(found, key=lambda one: (not one.lower().startswith(low), one))[:GPUS_MAX]


def matching_gpus(typed: str, names: Sequence[str]) -> list[str]:
    """The same for a list of GPU types apart by commas: what is there already stays.

    >>> matching_gpus("CPU, h", ["CPU", "H100"])
    ['CPU, H100']
    """
    before, _, last = typed.rpartition(",")
    held = [one.strip() for one in before.split(",") if one.strip()]
    rest = [one for one in names if one.lower() not in {two.lower() for two in held}]
    return [", ".join([*held, one]) for one in matching(last, rest)]
