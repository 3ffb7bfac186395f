"""Segments of the log of a platform on this machine: list, seal, verify, truncate, copy."""

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from shared.api.fields import JsonObject
from shared.presentation.units import count_text, one_line
from warpboard.context import AppContext
from warpboard.domain.output import FAILED, OK
from warpboard.processes.maintenance import run_in_folder
from warpboard.terminal import options
from warpboard.terminal.maintenance import show_steps
from warpboard.terminal.options import local_command

SEGMENTS_MAX = 20


async def _run(context: AppContext, operation: str, *arguments: str) -> JsonObject:
    environ = context.settings.environ
    with show_steps(context, operation) as show:
        return await run_in_folder(context.folder, environ, "segments", *arguments, show=show)


@local_command("server segments list", access=options.DATA_FOLDER)
async def list_segments(context: AppContext) -> int:
    """List the segments of the log.

    It also says how far the stream was truncated behind them.
    """
    answer = await _run(context, "reading", "list")
    return context.show(answer, segment_lines(answer))


@local_command("server segments seal", access=options.DATA_FOLDER)
async def seal(context: AppContext) -> int:
    """Export what is sealed and in no segment yet.

    Each segment is read back, and named by a signed event. The platform may run.
    """
    answer = await _run(context, "exporting", "seal")
    return context.show(answer, segment_lines(answer))


@local_command("server segments verify", access=options.DATA_FOLDER)
async def verify(context: AppContext) -> int:
    """Read every segment back, and check it.

    It checks bytes, hash chain, index and signature, and compares with the archive. Exit code 0
    if nothing is wrong.
    """
    answer = await _run(context, "verifying", "verify")
    context.show(answer, verify_lines(answer))
    return OK if answer["is_clean"] else FAILED


@local_command("server segments repair", access=options.DATA_FOLDER)
async def repair(context: AppContext) -> int:
    """Export damaged segments again.

    They come from the archive, which must have the hash chain that was sealed.
    """
    answer = await _run(context, "exporting", "repair")
    count = count_text(answer["repaired"], "segment")
    return context.show(answer, [f"{count} exported again"])


@local_command(
    "server segments truncate",
    "server segments truncate --apply --keep-days 30",
    parameters=(
        click.option(
            "--keep-days",
            type=float,
            default=7.0,
            show_default=True,
            help="Keep the events of so many days; at least 2.",
        ),
        click.option("--apply", "is_applied", is_flag=True, help="Drop; otherwise only say what."),
    ),
    access=options.OPERATOR,
)
async def truncate(context: AppContext, *, keep_days: float, is_applied: bool) -> int:
    """Drop what is over and in segments from the stream.

    That is, histories of submissions, jobs and runs. Without --apply it only says how far, and
    what holds it back. The platform may run; readers get
    dropped events from the segments.
    """
    if context.place.url:
        raise click.UsageError("segments are those of a --folder of this machine, not of a --url")
    mode = "--apply" if is_applied else "--dry-run"
    actor = f"operator:{context.operator}"
    arguments = ("truncate", mode, "--keep-days", str(keep_days), "--actor", actor)
    answer = await _run(context, "truncating", *arguments)
    return context.show(answer, truncation_lines(answer))


def _copy_command(words: str) -> Callable[..., click.Command]:
    return local_command(
        words,
        parameters=(click.argument("folder_", metavar="FOLDER", type=click.Path(path_type=Path)),),
        access=options.DATA_FOLDER,
    )


@_copy_command("server segments save /mnt/log")
async def save(context: AppContext, folder_: Path) -> int:
    """Copy the segments into FOLDER.

    It may be a mount of another machine or of object storage. Files that are there and right
    are not written again.
    """
    answer = await _run(context, "copying", "save", str(folder_.absolute()))  # noqa: ASYNC240
    return context.show(answer, [f"{count_text(answer['files'], 'file')} written to {folder_}"])


@_copy_command("server segments load /mnt/log")
async def load(context: AppContext, folder_: Path) -> int:
    """Put damaged segments back from FOLDER.

    Each file must have the SHA-256 that the log names.
    """
    answer = await _run(context, "copying", "load", str(folder_.absolute()))  # noqa: ASYNC240
    return context.show(answer, [f"{count_text(answer['files'], 'file')} put back"])


def segment_lines(answer: JsonObject) -> Iterator[str]:
    """Describe the newest segments.

    >>> segment = {"first": 1, "last": 20000, "events": {"bytes": 2048, "digest": "ab" * 32}}
    >>> answer = {"segments": [segment], "truncated_seq": 0, "is_truncating": False, "sealed": 1}
    >>> for line in segment_lines(answer):
    ...     print(line)
    1 new segment
    events 1 to 20000: 2,048 bytes, SHA-256 abababababab
    the stream has all events
    """
    if "sealed" in answer:
        yield count_text(answer["sealed"], "new segment")
    segments = answer["segments"]
    if len(segments) > SEGMENTS_MAX:
        yield f"… {len(segments) - SEGMENTS_MAX} older segments"
    for segment in segments[-SEGMENTS_MAX:]:
        blob = segment["events"]
        size = f"{blob['bytes']:,} bytes, SHA-256 {blob['digest'][:12]}"
        yield f"events {segment['first']} to {segment['last']}: {size}"
    yield _stream_line(answer)


def _stream_line(answer: JsonObject) -> str:
    seq = answer["truncated_seq"]
    if answer["is_truncating"]:
        return f"a truncation up to event {seq} is running, or was interrupted: then repeat it"
    dropped = f"the stream has dropped what is over of events 1 to {seq}"
    return dropped if seq else "the stream has all events"


def verify_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what is wrong with segments."""
    for finding in answer["findings"]:
        yield f"NOT CLEAN from event {finding['seq']} on: {one_line(finding['what'])}"
    count = count_text(len(answer["segments"]), "segment")
    yield f"clean: {count}" if answer["is_clean"] else "NOT CLEAN: see docs/operating/segments.md"


def truncation_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what was dropped, or would be, and what holds the rest back."""
    if answer["is_trial"]:
        yield f"histories that are over would be dropped from events 1 to {answer['seq']}"
    else:
        before, after = answer["messages_before"], answer["messages_after"]
        sizes = f"{answer['bytes_before']:,} to {answer['bytes_after']:,} bytes"
        yield f"the stream went from {before:,} to {after:,} events, {sizes}"
        yield _stream_line(answer)
    for reason in answer["held_by"]:
        yield f"held back: {reason}"
