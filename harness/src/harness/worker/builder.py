"""The builder: a guest that runs a compiler in a box and hands over what it made.

It is believed as little as any guest. The supervisor bounds its time, its box bounds the rest, and
what it hands over is opaque bytes.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from harness.worker import nvrtc
from harness.worker.build import Unusable
from harness.worker.protocol import TEXT_CHARS_MAX

KEPT_BYTES = 8 * 1024
MESSAGES_BYTES_MAX = 16 * 1024**2
_CHUNK_BYTES = 64 * 1024

# What compilers say when memory ran out under them, where no cgroup ends the whole box at once.
_NO_MEMORY = (
    b"annot allocate memory",
    b"virtual memory exhausted",
    b"std::bad_alloc",
    b"Killed signal terminated program",
)


def build(order: dict[str, Any], descriptor: int) -> None:
    """Carries out an order of harness.toolchains.command, its result into a memory.

    Errors: Unusable, of kind compile_error or memory. What is run is printed, too, with what the
    compiler says and how it ended.
    """
    output = Path(order["output"])
    output.parent.mkdir(parents=True, exist_ok=True)
    _print(shown(order).encode())
    if order["nvrtc"]:
        ended, said, data = nvrtc.compiled(order["nvrtc"], order["source"], order["arguments"])
    else:
        status, said = run(order["arguments"], _environment(order, output.parent))
        ended = f"exit code {status}" if status >= 0 else f"signal {-status}"
        data = _read(output, order["bytes_max"]) if status == 0 else b""
    said = _plain(order, said.decode(errors="replace")).encode()
    _print(said)
    _print(ended.encode())
    if not data:
        raise _failure(said)
    if len(data) > order["bytes_max"]:
        size = f"more than {order['bytes_max']} bytes"
        raise Unusable("compile_error", f"what was built has {size}, which is too much")
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        memory.write(data)


def shown(order: dict[str, Any]) -> str:
    """The command line of an order as a shell takes it, with the names of files in its folders.

    >>> argv = ["g++", "-I/s", "/s/k.cpp", "-o", "/scratch/built/kernel"]
    >>> shown({"arguments": argv, "nvrtc": "", "source": argv[2], "output": argv[4]})
    '$ g++ -I. k.cpp -o kernel'
    """
    asked = order["arguments"]
    command = ("nvrtc", *asked, order["source"]) if order["nvrtc"] else asked
    return f"$ {_plain(order, shlex.join(command))}"


def run(arguments: Sequence[str], environment: dict[str, str]) -> tuple[int, bytes]:
    """Runs a program to its end; its exit status, and the head and the tail of what it says.

    Errors: Unusable, of kind compile_error, if it cannot be started or never stops talking.
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
                said = _drained(process.stdout)
            except BaseException:
                process.kill()
                raise
            return process.wait(), said
    except OSError as error:
        raise Unusable("compile_error", f"{arguments[0]} cannot be run here: {error}") from error


def shortened(said: bytes, bytes_max: int) -> bytes:
    r"""The head and the tail of a text, with a line where something is left out.

    >>> shortened(b"first line\nsecond line\nthird line\nlast line\n", 20)
    b'first line\n[24 bytes are left out here]\nlast line\n'
    """
    if len(said) <= bytes_max:
        return said
    head, tail = said[: bytes_max // 2], said[-(bytes_max // 2) :]
    # Whole lines, unless one is longer than the room for all.
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :] or tail
    left_out = len(said) - len(head) - len(tail)
    return head.rstrip(b"\n") + b"\n[%d bytes are left out here]\n" % left_out + tail


def _plain(order: dict[str, Any], text: str) -> str:
    """Without the folders of source and result, which are a box's own and help no participant."""
    for path in filter(None, (order["output"], order["source"])):
        folder = str(Path(path).parent)
        text = text.replace(f"{folder}/", "").replace(f"-I{folder}", "-I.")
    return text


def _environment(order: dict[str, Any], folder: Path) -> dict[str, str]:
    """Made from nothing; in the C locale, for messages are read as plain text."""
    return {**order["environment"], "LC_ALL": "C", "HOME": str(folder), "TMPDIR": str(folder)}


def _drained(stream: IO[bytes]) -> bytes:
    head, tail, total = b"", b"", 0
    while chunk := stream.read(_CHUNK_BYTES):
        total += len(chunk)
        if total > MESSAGES_BYTES_MAX:
            reason = f"the compiler said more than {MESSAGES_BYTES_MAX} bytes, beginning with:\n"
            raise Unusable("compile_error", reason + _text(head))
        room = KEPT_BYTES - len(head)
        head += chunk[:room]
        tail = (tail + chunk[room:])[-KEPT_BYTES:]
    left_out = total - len(head) - len(tail)
    gap = b"\n[%d bytes are left out here]\n" % left_out if left_out else b""
    return head + gap + tail


def _read(output: Path, bytes_max: int) -> bytes:
    """The result, one byte more than may be at most; nothing, if the compiler wrote none."""
    try:
        with output.open("rb") as file:
            return file.read(bytes_max + 1)
    except OSError:
        return b""


def _print(said: bytes) -> None:
    """Lines into the log of the run, where there is more room than in a message."""
    if said:
        sys.stdout.write(said.decode(errors="replace").removesuffix("\n") + "\n")
        sys.stdout.flush()


def _failure(said: bytes) -> Unusable:
    kind = "memory" if any(words in said for words in _NO_MEMORY) else "compile_error"
    return Unusable(kind, _text(said) or "the compiler failed and said nothing")


def _text(said: bytes) -> str:
    """What fits into a message: the first errors help most, the last line counts them."""
    return shortened(said, TEXT_CHARS_MAX - 100).decode(errors="replace").strip()
