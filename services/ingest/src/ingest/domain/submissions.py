"""What may come in: admissible, or Refused with a code and the mend."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec import structs

from shared.errors import Refused
from shared.events import MODES, Blob, ProblemPublished, Requires, SubmissionReceived
from shared.problems.directives import Directives
from shared.problems.languages import suffixes, toolchains

QUEUE_WAIT_S_MAX = 3600.0
STARTING_S_MAX = 60.0
ARCHIVES = (".zip", ".tgz", ".tar.gz", ".tar", ".whl")


@dataclass(frozen=True)
class Submit:
    """A participant's wish: one file, for one problem, in one mode."""

    account: str
    problem: str
    mode: str
    name: str
    text: str
    source: Blob
    at: datetime
    via: str
    request_hash: str
    case: int = 0


def file_text(name: str, source: bytes, published: ProblemPublished) -> str:
    """The text of a submitted file. Errors: Refused, naming what is wrong with it."""
    ends, bytes_max = suffixes(published.languages), published.source_bytes_max
    if name.endswith(ARCHIVES):
        raise Refused("archive_not_supported", f"{name} is an archive: send the one source file")
    if not name.endswith(ends):
        what = f"{name!r} does not end in {' or '.join(ends)}, which this problem takes"
        raise Refused("bad_extension", what, "file")
    if len(source) > bytes_max:
        raise Refused(
            "file_too_large",
            f"the file has {len(source):,} bytes; this problem takes at most {bytes_max:,}",
            "file",
        )
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(
            "not_utf8", f"the file is not UTF-8 text: byte {error.start} cannot be read", "file"
        ) from error
    if "\0" in text:
        raise Refused("not_utf8", f"the file holds a NUL byte at {text.index(chr(0))}", "file")
    if not text.strip():
        raise Refused("empty_file", "the file is empty: it must define custom_kernel", "file")
    return text


def check_mode(mode: str) -> None:
    """Refuse a mode we do not have."""
    if mode not in MODES:
        raise Refused("unknown_mode", f"mode {mode!r} is none of {', '.join(MODES)}", "mode")


def check_case(case: int, mode: str, published: ProblemPublished) -> int:
    """The only case that is to be profiled, 0 for all. Errors: Refused for one that is none."""
    if not case:
        return 0
    if mode != "profile":
        what = f"a single case is for mode profile, not for {mode}: leave it out"
        raise Refused("invalid_request", what, "case")
    # Where the last one alone is ranked, it is the only one that is timed.
    timed = 1 if published.ranking_by == "last" else published.cases_count.get("benchmarks", 0)
    if case > timed:
        raise Refused("invalid_request", f"case {case} is none of 1 to {timed}", "case")
    return case


def choose_gpu(asked: str | None, directives: Directives, published: ProblemPublished) -> str:
    """The GPU type to run on: as asked, else the file's only one, else the problem's only one."""
    named = [asked] if asked else list(directives.gpus) or published.gpus
    if len(named) > 1:
        raise Refused(
            "unknown_gpu", f"say on which GPU type to run: one of {', '.join(named)}", "gpu"
        )
    types = {gpu.lower(): gpu for gpu in published.gpus}
    if named[0].lower() not in types:
        raise Refused(
            "unknown_gpu",
            f"GPU type {named[0]!r} is not on this leaderboard: {', '.join(published.gpus)}",
            "gpu",
        )
    return types[named[0].lower()]


def check_directives(slug: str, directives: Directives) -> None:
    """Refuse a file that names another leaderboard than the request does."""
    if directives.leaderboard and directives.leaderboard.lower() != slug:
        raise Refused(
            "leaderboard_mismatch",
            f"the file says leaderboard {directives.leaderboard!r}, the request {slug!r}",
            "problem",
        )


def deadline(mode: str, budgets_s: dict[str, float], at: datetime) -> datetime:
    """When the submission must be over: a place in the queue, a start, and every stage's budget."""
    stages = {
        "test": ("build", "test"),
        "benchmark": ("build", "test", "benchmark"),
        "profile": ("build", "test", "benchmark"),
        "ranked": ("build", "test", "test", "ranked"),
    }[mode]
    budget_s = sum(budgets_s[stage] for stage in stages)
    return at + timedelta(seconds=QUEUE_WAIT_S_MAX + STARTING_S_MAX + budget_s)


def required(name: str, text: str, asked: Requires) -> Requires:
    """What a machine must have for a file: what its problem asks for, and its own compiler."""
    found = dict.fromkeys([*asked.toolchains, *toolchains(name, text)])
    return structs.replace(asked, toolchains=list(found))


def receive(command: Submit, published: ProblemPublished, gpu: str) -> SubmissionReceived:
    """The fact that an admissible submission was taken in."""
    return SubmissionReceived(
        account=command.account,
        problem=command.problem,
        problem_number=published.number,
        problem_digest=published.digest,
        gpu=gpu,
        mode=command.mode,
        source=command.source,
        name=command.name,
        deadline_at=deadline(command.mode, published.budgets_s, command.at),
        via=command.via,
        request_hash=command.request_hash,
        case=command.case,
        requires=required(command.name, command.text, published.requires),
    )


def safe_name(name: str) -> str:
    """A file's base name in [A-Za-z0-9._-], at most 64 characters.

    >>> safe_name("../my kernel.py")
    'my_kernel.py'
    """
    base = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in base)
    return kept[-64:] or "submission"
