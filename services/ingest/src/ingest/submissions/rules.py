"""Rules for submissions: what is accepted, what is refused with which code, and cancelling."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from harness.vocabulary import CPU_TYPE, MODES, STAGES
from shared import events
from shared.api.submissions import NCU_NAME_BASES, REQUESTED_GPUS_MAX, SubmissionRequest
from shared.errors import Refused
from shared.event_log import Decider
from shared.problems.submission_file import (
    GPU_LANGUAGES,
    PLAIN,
    Directives,
    language_of,
    libraries,
    read_directives,
    suffix,
    suffixes,
    toolchains,
)
from shared.source_files import ARCHIVES, SourceFile, check_files, pack_files

QUEUE_WAIT_S_MAX = 3600.0
STARTING_S_MAX = 60.0
NCU_NAME_LENGTH_MAX = 1024
NCU_KERNEL_NAME = re.compile(rf"[^\x00-\x1f\x7f]{{0,{NCU_NAME_LENGTH_MAX}}}")
NCU_LAUNCHES_MAX = 1000
# The GPU types of AMD are named like this one's: MI300X.
AMD_PREFIX = "MI"


class ParsedFiles(NamedTuple):
    """Submitted files: their texts by name, the entry first, its directives, and the GPU types.

    The names are those that are stored. `blob` has all the files.
    """

    texts: Mapping[str, str]
    blob: bytes
    directives: Directives
    gpus: Sequence[str]


def parse_files(
    request: SubmissionRequest, slug: str, published: events.ProblemPublished
) -> ParsedFiles:
    """Return the files of a request. Raises `Refused` for them, its GPU types and its options."""
    for gpu in request.gpus:
        choose_gpu(gpu, Directives(), published)
    texts = file_texts(request.files, published)
    names = zip(texts, request.files, strict=True)
    blob = pack_files([SourceFile(name, file.data) for name, file in names])
    directives = read_directives(next(iter(texts.values())))
    check_directives(slug, directives)
    gpus = choose_gpus(request.gpus, directives, published)
    check_case(request.case, request.mode, published)
    check_ncu(request, gpus)
    return ParsedFiles(texts, blob, directives, gpus)


def file_texts(
    files: Sequence[SourceFile], published: events.ProblemPublished
) -> Mapping[str, str]:
    """Return the texts of submitted files by name, the entry first.

    Raises `Refused`, naming the file and what is wrong with it.
    """
    (entry, *others), ends = files, suffixes(published.languages)
    if entry.name.endswith(ARCHIVES):
        raise Refused("archive_not_supported", f"{entry.name} is an archive: send the source files")
    if not entry.name.endswith(ends):
        message = f"{entry.name!r} does not end in {' or '.join(ends)}, which this problem takes"
        raise Refused("bad_extension", message, "file")
    check_files(safe_name(entry.name), others, published.source_files_max, published.files)
    _check_bytes(files, published.source_bytes_max)
    texts = {safe_name(entry.name): _read_text("the file", entry.data, "file")}
    texts |= {file.name: _read_text(file.name, file.data, "files") for file in others}
    if not next(iter(texts.values())).strip():
        raise Refused("empty_file", "the file is empty: it must define custom_kernel", "file")
    return texts


def _check_bytes(files: Sequence[SourceFile], bytes_max: int) -> None:
    """Refuse files that are larger together than a problem allows."""
    total = sum(len(file.data) for file in files)
    if total <= bytes_max:
        return
    if len(files) == 1:
        message = f"the file has {total:,} bytes; this problem takes at most {bytes_max:,}"
        raise Refused("file_too_large", message, "file")
    largest = max(files, key=lambda file: len(file.data))
    message = f"the {len(files)} files have {total:,} bytes together, of which {largest.name} has "
    message += f"{len(largest.data):,}; this problem takes at most {bytes_max:,}: shorten them"
    raise Refused("file_too_large", message, "files")


def _read_text(name: str, data: bytes, field: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{name} is not UTF-8 text: byte {error.start} cannot be read"
        raise Refused("not_utf8", message, field) from error
    if "\0" in text:
        raise Refused("not_utf8", f"{name} holds a NUL byte at {text.index(chr(0))}", field)
    return text


def check_case(case: int, mode: str, published: events.ProblemPublished) -> None:
    """Refuse a single case to profile that does not exist; 0 means all."""
    if not case:
        return
    if mode != "profile":
        message = f"a single case is only for mode profile, not for {mode}: leave it out"
        raise Refused("invalid_request", message, "case")
    # Where only the last case is ranked, it is the only one that is timed.
    timed_count = (
        1 if published.ranking_by == "last" else published.cases_count.get("benchmarks", 0)
    )
    if case > timed_count:
        raise Refused("invalid_request", f"case {case} is none of 1 to {timed_count}", "case")


def check_ncu(request: SubmissionRequest, gpus: Iterable[str]) -> None:
    """Refuse options of ncu that it does not have, or that nothing here can use."""
    name, base = request.ncu_kernel_name, request.ncu_kernel_name_base
    if not (name or base or request.ncu_launch_count):
        return
    if request.mode != "profile":
        message = f"options of ncu are only for mode profile, not for {request.mode}"
        raise Refused("invalid_request", message, "ncu_kernel_name")
    if not NCU_KERNEL_NAME.fullmatch(name):
        message = f"ncu_kernel_name must have 1 to {NCU_NAME_LENGTH_MAX} printable characters"
        raise Refused("invalid_request", message, "ncu_kernel_name")
    if base not in ("", *NCU_NAME_BASES):
        message = f"ncu_kernel_name_base must be one of {', '.join(NCU_NAME_BASES)}, not {base!r}"
        raise Refused("invalid_request", message, "ncu_kernel_name_base")
    if not 0 <= request.ncu_launch_count <= NCU_LAUNCHES_MAX:
        message = f"ncu_launch_count must be 1 to {NCU_LAUNCHES_MAX}"
        raise Refused("invalid_request", message, "ncu_launch_count")
    if unsupported := [gpu for gpu in gpus if gpu == CPU_TYPE or gpu.startswith(AMD_PREFIX)]:
        message = f"ncu profiles NVIDIA GPUs, not {', '.join(unsupported)}: leave its options out"
        raise Refused("not_supported", message, "gpu")


def choose_gpu(
    requested_gpu: str | None, directives: Directives, published: events.ProblemPublished
) -> str:
    """Return the GPU type to run on: the requested one, else the only one of file or problem."""
    candidates = [requested_gpu] if requested_gpu else list(directives.gpus) or published.gpus
    if len(candidates) > 1:
        raise Refused("unknown_gpu", f"choose a GPU type: one of {', '.join(candidates)}", "gpu")
    spellings = {gpu.lower(): gpu for gpu in published.gpus}
    if candidates[0].lower() not in spellings:
        known = ", ".join(published.gpus)
        message = f"GPU type {candidates[0]!r} is not on this leaderboard: {known}"
        raise Refused("unknown_gpu", message, "gpu")
    return spellings[candidates[0].lower()]


def choose_gpus(
    requested_gpus: Sequence[str], directives: Directives, published: events.ProblemPublished
) -> Sequence[str]:
    """Return the GPU types to submit to, each once. Raises `Refused` (`unknown_gpu`)."""
    gpus = list(dict.fromkeys(requested_gpus or directives.gpus))
    requested: list[str | None] = [*gpus] or [None]
    if len(requested) > REQUESTED_GPUS_MAX:
        raise Refused("unknown_gpu", f"at most {REQUESTED_GPUS_MAX} GPU types at once", "gpu")
    chosen = [choose_gpu(gpu, directives, published) for gpu in requested]
    return list(dict.fromkeys(chosen))


def check_directives(slug: str, directives: Directives) -> None:
    """Refuse a file that names another leaderboard than the request."""
    if directives.leaderboard and directives.leaderboard.lower() != slug:
        message = f"the file names leaderboard {directives.leaderboard!r}, the request {slug!r}"
        raise Refused("leaderboard_mismatch", message, "problem")


def deadline(mode: str, budgets_s: dict[str, float], at: datetime) -> datetime:
    """Return the deadline of a submission: time in the queue, start, and all stage budgets."""
    budget_s = sum(budgets_s[STAGES[stage].budget or mode] for stage in MODES[mode].stages)
    return at + timedelta(seconds=QUEUE_WAIT_S_MAX + STARTING_S_MAX + budget_s)


def required(
    texts: Mapping[str, str], published: events.ProblemPublished, gpu: str
) -> events.Requires:
    """Return what an agent of a GPU type needs for files: the problem's requirements and their own.

    `texts` are the files by name, the entry first. Raises `Refused` for a language of GPUs on the
    processor.
    """
    entry = next(iter(texts))
    needed = list(dict.fromkeys(tool for it in texts.items() for tool in _tools(*it, entry, gpu)))
    if gpu == CPU_TYPE and language_of(entry) in GPU_LANGUAGES:
        if published.lang == "py":
            message = f"a {suffix(entry)} file needs a GPU: choose another GPU type than {CPU_TYPE}"
            raise Refused("toolchain_missing", f"{message}, or another language", "file")
        # The whole problem is compiled for the processor.
        needed = ["g++", *needed[1:]]
    requires = published.requires
    combined = dict.fromkeys([*requires.toolchains, *needed])
    return structs.replace(requires, toolchains=list(combined))


def _tools(name: str, text: str, entry: str, gpu: str) -> list[str]:
    """Return the toolchains that one of several files needs.

    Only the entry is compiled by itself: of another native file its libraries count, because what
    includes or loads it needs them.
    """
    if name == entry or name.endswith(PLAIN):
        return toolchains(name, text, gpu)
    return libraries(text)


def with_requirements(
    received: events.SubmissionReceived,
    files: ParsedFiles,
    published: events.ProblemPublished,
    runner: str,
) -> Sequence[events.SubmissionReceived]:
    """Return a submission for each GPU type of its files, with what an agent needs to run it.

    Raises `Refused` (`toolchain_missing`).
    """
    submissions = []
    for gpu in files.gpus:
        requires = required(files.texts, published, gpu)
        requires = structs.replace(requires, runner=runner)
        submissions.append(structs.replace(received, gpu=gpu, requires=requires))
    return submissions


def check_runner(
    runner: str,
    gpus: Sequence[str],
    needed_toolchains: Iterable[str],
    registered: events.LauncherRegistered | None,
) -> None:
    """Refuse a runner that is not a launcher, or lacks one of these GPU types or toolchains."""
    if registered is None:
        message = f"there is no launcher {runner!r}; the queue lists those that there are"
        raise Refused("unknown_runner", message, "runner")
    if missing := [gpu for gpu in gpus if gpu not in registered.prices]:
        served = ", ".join(registered.prices)
        message = f"launcher {runner} does not serve {', '.join(missing)}, only {served}"
        raise Refused("unknown_runner", message, "runner")
    offered = registered.toolchains
    if missing := [name for name in needed_toolchains if offered and name not in offered]:
        message = f"agents of launcher {runner} do not have {' and '.join(missing)}"
        raise Refused("toolchain_missing", f"{message}, only {', '.join(offered)}", "file")


def evolve_launcher(
    registered: events.LauncherRegistered | None, fact: events.Fact
) -> events.LauncherRegistered | None:
    """Return what a launcher offers after one more event."""
    return fact if isinstance(fact, events.LauncherRegistered) else registered


# Only read here: a launcher registers itself.
LAUNCHER_DECIDER = Decider[events.Fact, events.LauncherRegistered | None, events.Fact](
    None, lambda _command, _state: (), evolve_launcher
)


def safe_name(name: str) -> str:
    """Return the base name of a file in [A-Za-z0-9._-], at most 64 characters.

    >>> safe_name("../my kernel.py")
    'my_kernel.py'
    """
    base = name.replace("\\", "/").rpartition("/")[2]
    cleaned = "".join(
        character if character.isascii() and (character.isalnum() or character in "._-") else "_"
        for character in base
    )
    return cleaned[-64:] or "submission"


@dataclass(frozen=True)
class Submission:
    """The state of a submission."""

    is_cancelled: bool = False
    is_over: bool = False


def decide_cancel(
    command: events.SubmissionCancelRequested, state: Submission
) -> Sequence[events.Fact]:
    """Return the cancel request, once. Raises `Refused` (`already_ended`)."""
    if state.is_over:
        raise Refused("already_ended", "this submission has ended: there is nothing to cancel")
    return () if state.is_cancelled else (command,)


def evolve_submission(state: Submission, fact: events.Fact) -> Submission:
    """Return the submission after one more event."""
    match fact:
        case events.SubmissionCancelRequested():
            return replace(state, is_cancelled=True)
        case events.SubmissionFinished():
            return replace(state, is_over=True)
    return state


SUBMISSION_DECIDER = Decider[events.SubmissionCancelRequested, Submission, events.Fact](
    Submission(), decide_cancel, evolve_submission
)
