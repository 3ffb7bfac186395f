"""`python -m ranker COMMAND`: parses the arguments, runs one command, returns its exit code.

0: success. 1: something differs or was changed. 2: the request is invalid. 3: a server is
unreachable. 130: interrupted.
"""

import asyncio
import json
import logging
import sys
import time
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from signal import SIGINT
from typing import Any, get_args

import msgspec

from ranker.archive.segments import KEEP_DAYS
from ranker.audit.command import audit_file, audit_live
from ranker.audit.report import report_lines
from ranker.blobs import collect_blobs
from ranker.domain.stored_log import PublishedSeal
from ranker.export.age import make_identity
from ranker.export.backup import ACCOUNTS, BLOBS, export_log, import_log
from ranker.export.encrypted import Retention, make_encrypted_backup, open_backup
from ranker.export.repair import repair_log, scrub_log
from ranker.export.segments import run_segments
from ranker.releases.service import release
from ranker.replay.runner import PROJECTIONS, SOURCES, replay_projection
from ranker.service.progress import command_log
from ranker.settings import Settings, load
from shared.api.audits import AuditReport
from shared.api.contest_standings import StandingRound
from shared.clock import now
from shared.errors import Failed, Refused
from shared.licences import LICENCES
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.postgres import await_migrations

OK, DIFFERS, REFUSED, FAILED = range(4)
INTERRUPTED = 128 + SIGINT
PROGRESS_PAUSE_S = 0.2


def main(arguments: Sequence[str]) -> int:
    """Run one command, and return the exit code."""
    options = make_parser().parse_args(arguments)
    # A connection closed at the end is not worth a log line.
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    if options.progress:
        command_log.setLevel(logging.INFO)
        command_log.addFilter(_SparseLines())
    try:
        return asyncio.run(_run(options))
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return REFUSED
    except Failed as failed:
        sys.stderr.write(f"{failed}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED


class _SparseLines(logging.Filter):
    """Lets the first line of each step pass, then a few per second."""

    step, next_at = "", 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the step is new, or enough time has passed since its last line."""
        step, now_s = (
            str(record.args[0] if isinstance(record.args, tuple) else ""),
            time.monotonic(),
        )
        if step == self.step and now_s < self.next_at:
            return False
        self.step, self.next_at = step, now_s + PROGRESS_PAUSE_S
        return True


async def _run(options: Namespace) -> int:
    is_equal = True
    match options.command:
        case "audit":
            return await _audit(options)
        case "export" | "backup" | "backup-key" | "import":
            summary = await _back_up_or_restore(options)
        case "release":
            summary = await _release(load(), options.folder, options.licence)
        case "gc":
            summary = await _collect_blobs(load(), is_trial=options.is_trial)
        case "segments" | "scrub":
            summary, is_equal = await _check_copies(options)
        case "repair":
            summary = await repair_log(
                load(),
                options.file,
                options.actor,
                overwrite=options.overwrite,
                accept_loss=options.accept_loss,
            )
        case _:
            summary = await replay_projection(load(), options)
            is_equal = summary["is_equal"]
    _print_json(summary)
    return OK if is_equal else DIFFERS


async def _check_copies(options: Namespace) -> tuple[dict[str, Any], bool]:
    """Scrub, or run a command for segments; also returns whether everything is clean."""
    if options.command == "scrub":
        report = await scrub_log(load())
        return report.data(), report.is_clean
    summary = await run_segments(load(), options)
    return summary, summary.get("is_clean", True)


async def _back_up_or_restore(options: Namespace) -> dict[str, Any]:
    match options.command:
        case "export":
            return await export_log(load(), options.file, options.source, options.left_out)
        case "backup":
            return await _back_up(load(), options)
        case "backup-key":
            return {"file": str(options.file), "recipient": make_identity(options.file)}
        case _:
            return await _restore(load(), options)


async def _back_up(settings: Settings, options: Namespace) -> dict[str, Any]:
    retention = Retention(options.keep_daily, options.keep_weekly, options.keep_monthly)
    return await make_encrypted_backup(
        settings, options.folder, options.recipient, retention, options.metrics
    )


async def _restore(settings: Settings, options: Namespace) -> dict[str, Any]:
    """Restore a backup, with the seal key that it contains unless another one is named."""
    with open_backup(options.file, options.identity) as backup:
        return await import_log(
            settings,
            backup.log,
            options.actor,
            is_incomplete_allowed=options.incomplete,
            seal_key=options.seal_key or backup.seal_key,
        )


async def _collect_blobs(settings: Settings, *, is_trial: bool) -> dict[str, Any]:
    nc = await connect(settings.bus_login, "ranker-gc")
    try:
        log, store = NatsLog(nc), NatsBlobStore(nc)
        return asdict(await collect_blobs(log, store, now(), is_trial=is_trial))
    finally:
        await nc.close()


async def _release(settings: Settings, folder: Path, licence: str | None) -> dict[str, Any]:
    # The names of participants are there, also if the platform has never run.
    await asyncio.to_thread(await_migrations, settings.postgres_dsn, "shared", "accounts")
    nc = await connect(settings.bus_login, "ranker-release")
    try:
        await ensure_streams(nc, settings.replicas)
        log, store = NatsLog(nc), NatsBlobStore(nc)
        chosen = settings.releases_licence if licence is None else licence
        built = await release(log, store, settings.postgres_dsn, folder, chosen)
    finally:
        await nc.close()
    tables = {name: msgspec.structs.asdict(change) for name, change in built.tables.items()}
    return {
        "folder": str(folder),
        "number": built.number,
        "seq": built.seq,
        "files": len(built.files),
        "bytes": sum(file.bytes for file in built.files),
        "tables": tables,
        "removed_files": len(built.removed),
    }


async def _audit(options: Namespace) -> int:
    published = _read_seals(options.seals)
    if options.file is None:
        report = await audit_live(load(), options, published)
    else:
        report = await audit_file(options, published)
    if isinstance(report, AuditReport) and not options.json:
        _print_lines(report_lines(report))
    else:
        _print_json(msgspec.to_builtins(report, builtin_types=(datetime,)))
    return OK if report.is_clean else DIFFERS


def _print_lines(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _print_json(value: dict[str, Any]) -> None:
    _print_lines([json.dumps(value, default=str)])


def _read_seals(path: Path | None) -> list[PublishedSeal]:
    if path is None:
        return []
    try:
        items = msgspec.json.decode(path.read_bytes())["items"]
        return [PublishedSeal(int(item["sealed_seq"]), str(item["chain"])) for item in items]
    except (OSError, msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
        expected = "expected the response of GET /v1/audit/seals"
        raise Refused("bad_seals", f"--seals {path}: {expected}: {error}", "seals") from error


def _parse_instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(text)
    return instant


# argparse shows this name in its error message: "invalid instant value".
_parse_instant.__name__ = "instant (such as 2026-11-21T12:00:00Z)"


def _add_audit(commands: "_SubParsersAction[ArgumentParser]") -> None:
    audit_help = "check a leaderboard, a contest or the rating, and the log behind it"
    add = commands.add_parser("audit", help=audit_help).add_argument
    add("problem", nargs="?")
    add("gpu", nargs="?")
    add("--version", type=int, help="problem version; default: the newest")
    add("--contest", help="the standing of this contest instead of a leaderboard")
    add("--round", choices=get_args(StandingRound), help="default: the newest that began")
    add("--rating", action="store_true", help="the rating over all problems instead")
    add("--as-of", type=_parse_instant, help="as of this instant")
    add("--as-of-seq", type=int, help="as of this event")
    add("--file", type=Path, help="an exported log; no server is needed")
    add("--key", action="append", default=[], help="a public key of seals, in base64")
    add("--seals", type=Path, help="a saved response of GET /v1/audit/seals")
    add("--json", action="store_true", help="as JSON, which all but that of a leaderboard is")


def make_parser() -> ArgumentParser:
    """Return the parser of all commands."""
    parser = ArgumentParser(prog="python -m ranker")
    progress_help = "write how much is done to stderr, a few times per second"
    parser.add_argument("--progress", action="store_true", help=progress_help)
    commands = parser.add_subparsers(dest="command", required=True)
    actor_help = "who runs the command, for the record"
    actor: dict[str, Any] = {"default": "service:ranker", "help": actor_help}

    _add_audit(commands)
    replay_help = "fold a projection beside the live one"
    replay = commands.add_parser("replay", help=replay_help).add_argument
    replay("--projection", choices=PROJECTIONS, default="ranker")
    replay("--source", choices=SOURCES, default="stream")
    replay("--file", type=Path, help="an exported log, for --source file")
    replay("--switch", action="store_true", help="replace the live projection with it")
    rebuild = commands.add_parser("rebuild", help="replay ranker's read models and only compare")
    rebuild.set_defaults(projection="ranker", source="stream", file=None, switch=False)

    _add_backup(commands)
    release_help = "write the next release of the kernel archive"
    release_command = commands.add_parser("release", help=release_help).add_argument
    release_command("folder", type=Path)
    release_command(
        "--licence", choices=("", *LICENCES), help="of sources whose authors chose default"
    )

    gc_help = "count, or remove, the blobs that no event refers to"
    gc_parser = commands.add_parser("gc", help=gc_help, allow_abbrev=False)
    gc_modes = gc_parser.add_mutually_exclusive_group(required=True)
    gc_modes.add_argument("--dry-run", dest="is_trial", action="store_true")
    gc_modes.add_argument("--apply", dest="is_trial", action="store_false")

    _add_segments(commands, actor)
    commands.add_parser("scrub", help="compare the log with its archive, event by event")
    repair_help = "put back what the log lacks, from its archive"
    repair = commands.add_parser("repair", help=repair_help).add_argument
    repair("file", type=Path, help="a new file: the repaired log is written there first")
    repair("--overwrite", action="store_true", help="where events differ, take the archive's")
    repair("--accept-loss", action="store_true", help="continue without events in neither")
    repair("--actor", **actor)
    _add_restore(commands, actor)
    return parser


def _add_segments(commands: "_SubParsersAction[ArgumentParser]", actor: dict[str, Any]) -> None:
    segments = commands.add_parser("segments", help="export the log in segments, and truncate it")
    actions = segments.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="list the segments")
    actions.add_parser("seal", help="export everything that is sealed and in no segment yet")
    actions.add_parser("verify", help="read every segment back and check it")
    actions.add_parser("repair", help="export damaged segments again from the archive")
    for name, text in (("save", "copy segments into a folder"), ("load", "put them back")):
        actions.add_parser(name, help=text).add_argument("folder", type=Path)
    truncate = actions.add_parser("truncate", help="drop from the stream what segments have")
    modes = truncate.add_mutually_exclusive_group(required=True)
    modes.add_argument("--dry-run", dest="is_trial", action="store_true")
    modes.add_argument("--apply", dest="is_trial", action="store_false")
    days_help = "keep the histories of so many days"
    truncate.add_argument("--keep-days", type=float, default=KEEP_DAYS, help=days_help)
    truncate.add_argument("--actor", **actor)


def _add_backup(commands: "_SubParsersAction[ArgumentParser]") -> None:
    export_help = "back up the log, its blobs and the accounts"
    export = commands.add_parser("export", help=export_help).add_argument
    export("file", type=Path)
    export("--source", choices=("stream", "archive"), default="stream")
    for part in (BLOBS, ACCOUNTS):
        part_help = f"leave out the {part}; the manifest records it"
        left_out: dict[str, Any] = {"dest": "left_out", "action": "append_const", "const": part}
        export(f"--without-{part}", **left_out, default=[], help=part_help)

    backup_help = "write an encrypted backup into a folder, and remove old ones"
    backup = commands.add_parser("backup", help=backup_help).add_argument
    backup("folder", type=Path)
    backup("--recipient", required=True, help="the public key, from backup-key or age-keygen")
    for period, count in Retention()._asdict().items():
        kept_help = f"keep the newest of so many {period} periods; default: {count}"
        backup(f"--keep-{period}", type=int, default=count, metavar="N", help=kept_help)
    backup("--metrics", type=Path, help="a file for node_exporter's textfile collector")
    key_help = "write a new secret key for restores, and print the public one"
    commands.add_parser("backup-key", help=key_help).add_argument("file", type=Path)


def _add_restore(commands: "_SubParsersAction[ArgumentParser]", actor: dict[str, Any]) -> None:
    restore_help = "restore a backup into an empty log"
    restore = commands.add_parser("import", help=restore_help).add_argument
    restore("file", type=Path)
    incomplete_help = "restore what is there and report what is missing"
    restore("--incomplete", action="store_true", help=incomplete_help)
    restore(
        "--seal-key", type=Path, help="the old platform's seal key; default: a new, recorded one"
    )
    restore("--identity", type=Path, help="the secret key of an encrypted backup")
    restore("--actor", **actor)
