"""Programs that a worker runs in its box: compilers, and a problem's own program.

The builder is trusted as little as any worker. The supervisor bounds its time, its box bounds the
rest, and its result is opaque bytes. A problem's own program has the POPCORN_FD protocol; its
process belongs to the submission as much as to the problem, and is not trusted.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from harness.worker import native, settings
from harness.worker.kernel_loader import SubmissionFailure
from harness.worker.protocol import TEXT_CHARS_MAX

KEPT_BYTES = 8 * 1024
MESSAGES_BYTES_MAX = 16 * 1024**2
_CHUNK_BYTES = 64 * 1024

# What compilers report when memory runs out and no cgroup ends the whole box at once.
_NO_MEMORY = (
    b"annot allocate memory",
    b"virtual memory exhausted",
    b"std::bad_alloc",
    b"Killed signal terminated program",
)

_NAME_CHARS_MAX = 1500


def run_build_order(order: dict[str, Any], descriptor: int) -> None:
    """Carry out an order of harness.build.command and write the result into a memory.

    The command, the compiler's messages and its exit are printed to the run's log. Raises
    SubmissionFailure of kind compile_error or memory.
    """
    output = Path(order["output"])
    output.parent.mkdir(parents=True, exist_ok=True)
    _print_lines(format_command(order).encode())
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
        data = _read(output, order["bytes_max"]) if status == 0 else b""
    messages = _strip_folders(order, messages.decode(errors="replace")).encode()
    _print_lines(messages)
    _print_lines(ending.encode())
    if not data:
        raise _build_failure(messages)
    if len(data) > order["bytes_max"]:
        size = f"more than {order['bytes_max']} bytes"
        raise SubmissionFailure("compile_error", f"the build result has {size}, which is too much")
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        memory.write(data)


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
    try:
        with subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        ) as process:
            assert process.stdout is not None
            try:
                output = _read_output(process.stdout)
            except BaseException:
                process.kill()
                raise
            return process.wait(), output
    except OSError as error:
        raise SubmissionFailure(
            "compile_error", f"{arguments[0]} cannot be run here: {error}"
        ) from error


def shorten_text(text: bytes, bytes_max: int) -> bytes:
    r"""Return the head and the tail of a text, with a line where something is left out.

    >>> shorten_text(b"first line\nsecond line\nthird line\nlast line\n", 20)
    b'first line\n[24 bytes are left out here]\nlast line\n'
    """
    if len(text) <= bytes_max:
        return text
    head, tail = text[: bytes_max // 2], text[-(bytes_max // 2) :]
    # Whole lines, unless one line is longer than the limit.
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :] or tail
    left_out = len(text) - len(head) - len(tail)
    return head.rstrip(b"\n") + b"\n[%d bytes are left out here]\n" % left_out + tail


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
            raise SubmissionFailure("compile_error", reason + _message_text(head))
        room = KEPT_BYTES - len(head)
        head += chunk[:room]
        tail = (tail + chunk[room:])[-KEPT_BYTES:]
    left_out = total - len(head) - len(tail)
    gap = b"\n[%d bytes are left out here]\n" % left_out if left_out else b""
    return head + gap + tail


def _read(output: Path, bytes_max: int) -> bytes:
    """Return the result with at most one byte too many; b"" if the compiler wrote none."""
    try:
        with output.open("rb") as file:
            return file.read(bytes_max + 1)
    except OSError:
        return b""


def _print_lines(text: bytes) -> None:
    """Print lines to the log of the run, which has more room than a message."""
    if text:
        sys.stdout.write(text.decode(errors="replace").removesuffix("\n") + "\n")
        sys.stdout.flush()


def _build_failure(messages: bytes) -> SubmissionFailure:
    kind = "memory" if any(words in messages for words in _NO_MEMORY) else "compile_error"
    return SubmissionFailure(
        kind, _message_text(messages) or "the compiler failed without a message"
    )


def _message_text(text: bytes) -> str:
    """Shorten text to fit a message: the first errors help most, the last line counts them."""
    return shorten_text(text, TEXT_CHARS_MAX - 100).decode(errors="replace").strip()


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
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
            check=False,
        ).returncode
    except OSError as error:
        raise SubmissionFailure(
            "exception", f"{command[-1][:_NAME_CHARS_MAX]} cannot run: {error}"
        ) from error
