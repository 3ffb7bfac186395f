"""What a worker runs besides calls: compilers, a problem's own program, and profilers.

The builder is trusted as little as any worker. The supervisor bounds its time, its box bounds the
rest, and its result is opaque bytes. A problem's own program has the POPCORN_FD protocol; its
process belongs to the submission as much as to the problem, and is not trusted. One call can run
under torch's profiler, which writes a trace for a viewer and a table to read, or under ncu in its
own box: a report, a text and a table. A submission can falsify all of these but would deceive only
its author.
"""

import contextlib
import csv
import gzip
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from harness.worker import native, protocol, settings
from harness.worker.explanations import explain_compiler, message_text, shorten_text
from harness.worker.protocol import SubmissionFailure
from harness.worker.submission import InvalidPack, unpack_built

KEPT_BYTES = 8 * 1024
MESSAGES_BYTES_MAX = 16 * 1024**2
_CHUNK_BYTES = 64 * 1024

_NAME_CHARS_MAX = 1500

TRACE_BYTES_MAX = 16 * 1024**2
TABLE_BYTES_MAX = 256 * 1024

# Less than a worker may write to one file, since a truncated trace is useless.
_RAW_BYTES_MAX = 48 * 1024**2
_ROWS_MAX = 40
_LABEL = "custom_kernel"

# Why ncu counts nothing on a machine, by an expression for its errors, the most certain first.
_NO_COUNTERS = {
    rb"ERR_NVGPUCTRPERM": "permission: the operator has to allow performance counters",
    rb"\bMIG\b": "MIG: the GPU is divided, and its parts have no counters of their own",
    rb"(?i)driver": "driver: it does not fit this ncu",
}
_NO_VALUE = "permission, MIG or driver: ncu gave no reason"
_OUTPUT_BYTES_MAX = 16 * 1024**2
_GAP_BYTES = 100
_EMPTY_VALUES = ("", "n/a", "nan", "-nan")

# What compilers leave in their caches: Triton cubins and PTX, torch's extensions libraries.
_BINARIES = (".cubin", ".so")
_BINARIES_MAX = 32
_PTX = ".ptx"
_DUMP_PTX = "--dump-ptx"


def run_build_order(order: dict[str, Any], descriptor: int) -> None:
    """Carry out an order of harness.build.command and write the result into a memory.

    The command, the compiler's messages and its exit are printed to the run's log. Raises
    SubmissionFailure of kind compile_error or memory.
    """
    output = Path(order["output"])
    output.parent.mkdir(parents=True, exist_ok=True)
    print(format_command(order), flush=True)  # noqa: T201  (the log of the run)
    data = b""
    if order["nvrtc"]:
        ending, messages, data = native.compile_source(
            order["nvrtc"], order["source"], order["arguments"]
        )
    else:
        # Messages are parsed, so the locale is C.
        folders = dict.fromkeys(("HOME", "TMPDIR"), str(output.parent))
        environment = {**order["environment"], "LC_ALL": "C", **folders}
        status, messages = run_compiler(order["arguments"], environment)
        ending = f"exit code {status}" if status >= 0 else f"signal {-status}"
        if status == 0:
            # The compiler may have written nothing.
            with contextlib.suppress(OSError), output.open("rb") as file:
                data = file.read(order["bytes_max"] + 1)
    text = _strip_folders(order, messages.decode(errors="replace"))
    lines = [text.removesuffix("\n"), ending] if text else [ending]
    print(*lines, sep="\n", flush=True)  # noqa: T201  (the log of the run)
    if not data:
        raise explain_compiler(text)
    if len(data) > order["bytes_max"]:
        size = f"more than {order['bytes_max']} bytes"
        raise SubmissionFailure("compile_error", f"the build result has {size}, which is too much")
    _write(descriptor, data)


def format_command(order: dict[str, Any]) -> str:
    """Format the command line of an order for a shell, without its own folders.

    >>> argv = ["g++", "-I/s", "/s/k.cpp", "-o", "/scratch/built/kernel"]
    >>> format_command({"arguments": argv, "nvrtc": "", "source": argv[2], "output": argv[4]})
    '$ g++ -I. k.cpp -o kernel'
    """
    arguments = order["arguments"]
    command = ("nvrtc", *arguments, order["source"]) if order["nvrtc"] else arguments
    return f"$ {_strip_folders(order, shlex.join(command))}"


def run_compiler(arguments: Sequence[str], environment: dict[str, str]) -> tuple[int, bytes]:
    """Run a program to its end; return its exit status and the ends of its output.

    Raises SubmissionFailure of kind compile_error if it cannot start or prints too much.
    """
    pipes: Any = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    try:
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment, **pipes)
    except OSError as error:
        reason = f"{arguments[0]} cannot be run here: {error}"
        raise SubmissionFailure("compile_error", reason) from error
    with process:
        assert process.stdout is not None
        try:
            output = _read_output(process.stdout)
        except BaseException:
            process.kill()
            raise
        return process.wait(), output


def _strip_folders(order: dict[str, Any], text: str) -> str:
    """Remove the folders of source and result, which are internal to the box."""
    for path in filter(None, (order["output"], order["source"])):
        folder = str(Path(path).parent)
        text = text.replace(f"{folder}/", "").replace(f"-I{folder}", "-I.")
    return text


def _read_output(stream: IO[bytes]) -> bytes:
    head, tail, total = b"", b"", 0
    while chunk := stream.read(_CHUNK_BYTES):
        total += len(chunk)
        if total > MESSAGES_BYTES_MAX:
            reason = f"the compiler printed more than {MESSAGES_BYTES_MAX} bytes, beginning with:\n"
            raise SubmissionFailure("compile_error", reason + message_text(head))
        room = KEPT_BYTES - len(head)
        head += chunk[:room]
        tail = (tail + chunk[room:])[-KEPT_BYTES:]
    left_out = total - len(head) - len(tail)
    gap = b"\n[%d bytes are left out here]\n" % left_out if left_out else b""
    return head + gap + tail


def run_program(order: dict[str, Any], descriptors: list[int], folder: Path) -> None:
    """Carry out an order of harness.supervisor.program_run in the folder of the problem's files.

    The descriptors are the pipe that the program reports to, the memory for its exit status in
    decimal, and the program itself if it was built. Raises SubmissionFailure of kind import_error
    or exception.
    """
    report_pipe, status_memory, *programs = descriptors
    home = Path(order["scratch"])
    python = (sys.executable, "-s", "-B")
    if order.get("must_import"):
        status = _run_command((*python, order["submission"]), folder, ())
        if status:
            raise SubmissionFailure(
                "import_error", f"{order['submission']} ended with code {status}"
            )
        return
    cases = home / "cases.txt"
    cases.write_text(order["cases"], encoding="utf-8")
    settings.add_environment({"POPCORN_FD": str(report_pipe), **order["environment"]})
    program = [f"/proc/self/fd/{descriptor}" for descriptor in programs] or [*python, order["main"]]
    command = (*program, order["mode"], str(cases))
    status = _run_command(command, folder, (report_pipe, *programs))
    os.close(report_pipe)
    os.write(status_memory, str(status).encode())


def _run_command(command: tuple[str, ...], folder: Path, descriptors: tuple[int, ...]) -> int:
    """Run a program and return its exit code; its output goes to the run's log."""
    try:
        return subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, pass_fds=descriptors, check=False
        ).returncode
    except OSError as error:
        raise SubmissionFailure(
            "exception", f"{command[-1][:_NAME_CHARS_MAX]} cannot run: {error}"
        ) from error


class EmptyProfile(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """Nothing was captured."""


def warm_up_profiler() -> None:
    """Import and start what the first profile of a process needs, which takes seconds."""
    _record_call(lambda: None).key_averages().table()


def profile_call(call: Callable[[], object], trace: int, table: int) -> None:
    """Make the call once; write the trace (gzipped JSON) and the table into two memories.

    A trace of more than 16 MiB is left out, and the table says so. Raises EmptyProfile, and
    whatever the call raises.
    """
    profile = _record_call(call)
    rows, has_gpu = profile.key_averages(), _torch().cuda.is_available()
    require_measurements(rows, has_gpu=has_gpu)
    packed = _export_trace(profile)
    order = f"self_{'device' if has_gpu else 'cpu'}_time_total"
    text = rows.table(sort_by=order, row_limit=_ROWS_MAX)
    if packed:
        _write(trace, packed)
    else:
        text += f"\nThe trace is left out: more than {TRACE_BYTES_MAX} bytes.\n"
    _write(table, text.encode()[:TABLE_BYTES_MAX])


def require_measurements(rows: Any, *, has_gpu: bool) -> None:
    """Raise EmptyProfile unless some time was recorded; on a GPU, some time of the GPU."""
    times = [row.device_time_total if has_gpu else row.cpu_time_total for row in rows]
    if not any(time > 0 for time in times):
        reason = "no kernel ran on the GPU" if has_gpu else "no call was recorded"
        raise EmptyProfile(f"the profile is empty: {reason}")


def _record_call(call: Callable[[], object]) -> Any:
    torch = _torch()
    profiler, has_gpu = torch.profiler, torch.cuda.is_available()
    gpu_activities = [profiler.ProfilerActivity.CUDA] if has_gpu else []
    activities = [profiler.ProfilerActivity.CPU, *gpu_activities]
    with profiler.profile(activities=activities, record_shapes=True) as recorded:
        with profiler.record_function(_LABEL):
            call()
        if has_gpu:
            torch.cuda.synchronize()
    return recorded


def _torch() -> Any:
    return importlib.import_module("torch")


def _export_trace(recorded: Any) -> bytes:
    """Return the trace, gzipped; b"" if it is too large."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        recorded.export_chrome_trace(str(path))
        if path.stat().st_size > _RAW_BYTES_MAX:
            return b""
        packed = gzip.compress(path.read_bytes(), compresslevel=6, mtime=0)
    return packed if len(packed) <= TRACE_BYTES_MAX else b""


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        memory.write(data)


class EmptyCapture(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The profiler ran and measured nothing."""


class NoCounters(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The profiler saw kernels, but counted nothing of one."""


def run_capture(order: dict[str, Any], descriptors: list[int], path: Path) -> None:
    """Carry out an order of harness.supervisor.profiler for the submission at `path`.

    The descriptors are the three results (report, text, table), the program that ncu runs, and the
    memories that it gets. If ncu can count nothing on this machine, there is only a text with the
    cause. Raises SubmissionFailure of kind exception.
    """
    settings.add_environment(order["environment"])
    report, text, table, program, *memories = descriptors
    report_path = Path(order["report"])
    replay_order = report_path.with_name("replay.json")
    # Paths of descriptors, for a process that ncu starts.
    program_path, *memory_paths = (
        f"/proc/{os.getpid()}/fd/{file}" for file in (program, *memories)
    )
    local_order = {"path": str(path), "memories": memory_paths}
    replay_order.write_text(json.dumps(order["replay"] | local_order), encoding="utf-8")
    flags = ("-I", "-B", "-X", "faulthandler")
    python = (sys.executable, *flags, program_path, str(replay_order))
    status, output = _run((*order["command"], *python), report_path.with_name("said.txt"))
    cause = _find_cause(output)
    if cause and (status or not report_path.is_file()):
        _write(text, _describe_no_counters(cause, output))
        return
    if status:
        raise _failure(f"ncu ended with status {status}", output)
    if not report_path.is_file():
        raise _failure("ncu made no report", output)
    pages = _read_pages(order, report_path)
    try:
        require_capture(pages["csv"].decode(errors="replace"))
    except NoCounters as error:
        _write(text, _describe_no_counters(f"{error}; {cause or _NO_VALUE}", output))
        return
    except (EmptyCapture, csv.Error) as error:
        raise SubmissionFailure("exception", str(error)) from error
    page = shorten_text(pages["text"], protocol.PAGE_BYTES_MAX - 2 * _GAP_BYTES)
    if report_path.stat().st_size <= protocol.REPORT_BYTES_MAX:
        _write(report, report_path.read_bytes())
    else:
        page += b"\nThe report is left out: more than %d bytes.\n" % protocol.REPORT_BYTES_MAX
    _write(text, page)
    # Whole lines only.
    csv_page, bytes_max = pages["csv"], protocol.CSV_BYTES_MAX
    is_whole = len(csv_page) <= bytes_max
    _write(table, csv_page if is_whole else csv_page[: csv_page.rfind(b"\n", 0, bytes_max) + 1])


def _read_pages(order: dict[str, Any], report: Path) -> dict[str, bytes]:
    pages = {}
    for name, line in order["pages"].items():
        status, pages[name] = _run(line, report.with_name(name))
        if status:
            reason = f"ncu ended with status {status} and cannot read its own report"
            raise _failure(reason, pages[name])
    return pages


def require_capture(raw: str) -> int:
    """Return how many kernels a raw page lists.

    Raises EmptyCapture if there is none, NoCounters if a kernel has no metric with a value.
    """
    lines = [line for line in raw.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("ID")]
    if not rows:
        raise EmptyCapture("the profile is empty: no kernel was profiled")
    for row in rows:
        metrics = [row[name] for name in row if name and "__" in name]
        if all(value is None or value.lower() in _EMPTY_VALUES for value in metrics):
            raise NoCounters("no metric of a kernel has a value")
    return len(rows)


def _find_cause(output: bytes) -> str:
    """Return why ncu counts nothing, "" if its errors name no cause of the machine."""
    errors = b"\n".join(line for line in output.splitlines() if line.startswith(b"==ERROR=="))
    return next((cause for word, cause in _NO_COUNTERS.items() if re.search(word, errors)), "")


def _describe_no_counters(cause: str, output: bytes) -> bytes:
    text = b"ncu counted nothing on this machine. %s\n" % cause.encode()
    return text + shorten_text(output, protocol.PAGE_BYTES_MAX - _GAP_BYTES - len(text))


def _run(arguments: Sequence[str], output: Path) -> tuple[int, bytes]:
    """Run a program; return its exit status and its output, via a file: pages exceed a pipe."""
    try:
        with output.open("wb") as file:
            process = subprocess.run(
                arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            )
    except OSError as error:
        reason = f"{Path(arguments[0]).name} cannot be run here: {error}"
        raise SubmissionFailure("exception", reason) from error
    with output.open("rb") as file:
        return process.returncode, file.read(_OUTPUT_BYTES_MAX)


def _failure(reason: str, output: bytes) -> SubmissionFailure:
    room = protocol.TEXT_CHARS_MAX - len(reason) - _GAP_BYTES
    excerpt = shorten_text(output, room).decode(errors="replace").strip()
    return SubmissionFailure("exception", f"{reason}: {excerpt}" if excerpt else reason)


def list_kernels(order: dict[str, Any], descriptors: list[int]) -> None:
    """Describe the GPU kernels of a build result, for harness.supervisor.profiler.

    The descriptors are the result, a binary or a pack of compile caches, and a memory for the text
    that each option of cuobjdump prints. A text stays empty if there are no kernels. Raises
    SubmissionFailure of kind exception.
    """
    built, *texts = descriptors
    folder = Path(order["folder"])
    folder.mkdir(parents=True)
    settings.add_environment(order["environment"])
    if order["is_native"]:
        data = os.pread(built, os.fstat(built).st_size, 0)
        if order["is_nvrtc"]:
            data, ptx = native.split_build_result(data)
            (folder / f"kernel{_PTX}").write_bytes(ptx)
        (folder / f"kernel{_BINARIES[0]}").write_bytes(data)
    else:
        with contextlib.suppress(InvalidPack, OSError):
            unpack_built(built, str(folder))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    binaries = [path for path in files if path.suffix in _BINARIES][:_BINARIES_MAX]
    for option, text in zip(order["options"], texts, strict=True):
        pages = [path.read_bytes() for path in files if path.suffix == _PTX and option == _DUMP_PTX]
        for binary in binaries:
            status, page = _run((order["cuobjdump"], option, str(binary)), folder / "page")
            # A library without kernels is an error for cuobjdump.
            pages += [page] if status == 0 else []
        page = b"".join(pages).replace(str(folder).encode() + b"/", b"")
        _write(text, shorten_text(page, protocol.LISTING_BYTES_MAX - _GAP_BYTES))
