"""`python -m ranker COMMAND`: reads the arguments, runs one command, says its exit code.

0 is well, 1 means that something differs or was touched, 2 that the request cannot be done as it
is, 3 that a server could not be reached, 130 that it was interrupted.
"""

import asyncio
import json
import logging
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from signal import SIGINT
from typing import Any

import msgspec

from ranker.commands.auditing import audit_file, audit_live
from ranker.commands.copying import export, import_
from ranker.commands.repairing import repair_log, scrub_log
from ranker.commands.replaying import PROJECTIONS, SOURCES, replay
from ranker.domain.scrutiny import Published
from ranker.export.manifest import ACCOUNTS, BLOBS
from ranker.settings import load
from shared.errors import Failed, Refused

OK, DIFFERS, REFUSED, FAILED = range(4)
INTERRUPTED = 128 + SIGINT


def main(arguments: Sequence[str], schema: str) -> int:
    """Run one command; `schema` is that of the live read models."""
    asked = _parser().parse_args(arguments)
    # That a connection is closed at the end is no news.
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    try:
        return asyncio.run(_run(asked, schema))
    except Refused as refused:
        sys.stderr.write(f"{refused.reason}\n")
        return REFUSED
    except Failed as failed:
        sys.stderr.write(f"{failed}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED


async def _run(asked: Namespace, schema: str) -> int:
    match asked.command:
        case "audit":
            return await _audit(asked, schema)
        case "export":
            said = await export(load(), asked.file, asked.source, asked.left_out)
        case "import":
            allowed = asked.is_incomplete_allowed
            said = await import_(load(), asked.file, asked.actor, is_incomplete_allowed=allowed)
        case "scrub":
            return await _scrub()
        case "repair":
            said = await repair_log(
                load(),
                asked.file,
                asked.actor,
                overwrite=asked.overwrite,
                accept_loss=asked.accept_loss,
            )
        case _:
            return await _replay(asked, schema)
    _say_json(said)
    return OK


async def _audit(asked: Namespace, schema: str) -> int:
    published = _published(asked.seals)
    if asked.file is None:
        report = await audit_live(load(), schema, asked, published)
    else:
        report = await audit_file(asked, published)
    if asked.json:
        _say_json(report.data())
    else:
        _say(report.lines())
    return OK if report.is_clean else DIFFERS


async def _scrub() -> int:
    report = await scrub_log(load())
    _say_json(report.data())
    return OK if report.is_clean else DIFFERS


async def _replay(asked: Namespace, schema: str) -> int:
    said = await replay(load(), schema, asked)
    _say_json(said)
    return OK if said["is_equal"] else DIFFERS


def _say(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _say_json(said: dict[str, Any]) -> None:
    _say([json.dumps(said, default=str)])


def _published(path: Path | None) -> list[Published]:
    """Seals that somebody kept, as GET /v1/audit/seals gives them. Errors: Refused."""
    if path is None:
        return []
    try:
        items = msgspec.json.decode(path.read_bytes())["items"]
        return [Published(int(one["sealed_seq"]), str(one["chain"])) for one in items]
    except (OSError, msgspec.DecodeError, LookupError, TypeError, ValueError) as error:
        expected = "expected what GET /v1/audit/seals answers"
        raise Refused("bad_seals", f"--seals {path}: {expected}: {error}", "seals") from error


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return found


# What argparse calls it when it is wrong: "invalid instant value".
_instant.__name__ = "instant (such as 2026-11-21T12:00:00Z)"


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m ranker")
    commands = parser.add_subparsers(dest="command", required=True)
    _audit_arguments(commands.add_parser("audit", help="check a leaderboard and its log"))
    again = commands.add_parser("replay", help="fold a projection anew beside the live one")
    again.add_argument("--projection", choices=PROJECTIONS, default="ranker")
    again.add_argument("--source", choices=SOURCES, default="stream")
    again.add_argument("--file", type=Path, help="an exported log, for --source file")
    again.add_argument("--switch", action="store_true", help="put it in the live one's place")
    same = commands.add_parser("rebuild", help="replay ranker's read models, and only compare")
    same.set_defaults(projection="ranker", source="stream", file=None, switch=False)
    out = commands.add_parser("export", help="back up the log, its blobs and the accounts")
    out.add_argument("file", type=Path)
    out.add_argument("--source", choices=("stream", "archive"), default="stream")
    for part in (BLOBS, ACCOUNTS):
        out.add_argument(
            f"--without-{part}",
            dest="left_out",
            action="append_const",
            const=part,
            default=[],
            help=f"leave the {part} out; the manifest says so",
        )
    # What was once asked for is always done now: who still asks is not refused.
    out.add_argument("--blobs", action="store_true", help=SUPPRESS)
    commands.add_parser("scrub", help="compare the log with its archive, event by event")
    repair = commands.add_parser("repair", help="put back what the log lacks, from its archive")
    repair.add_argument(
        "file", type=Path, help="a new file: the repaired log is written there first"
    )
    repair.add_argument(
        "--overwrite", action="store_true", help="where both differ, take the archive's"
    )
    repair.add_argument(
        "--accept-loss", action="store_true", help="go on without events that are nowhere"
    )
    repair.add_argument("--actor", default="service:ranker", help="who wants it, for the record")
    back = commands.add_parser("import", help="restore a backup into an empty log")
    back.add_argument("file", type=Path)
    back.add_argument(
        "--incomplete",
        dest="is_incomplete_allowed",
        action="store_true",
        help="restore what is there, and say what is not",
    )
    back.add_argument("--actor", default="service:ranker", help="who wants it, for the record")
    return parser


def _audit_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("problem")
    parser.add_argument("gpu")
    parser.add_argument("--version", type=int, help="of the problem; the newest by default")
    parser.add_argument("--as-of", type=_instant, help="the leaderboard at that instant")
    parser.add_argument("--as-of-seq", type=int, help="the leaderboard after that event")
    parser.add_argument("--file", type=Path, help="an exported log; no server is needed")
    parser.add_argument("--key", action="append", default=[], help="a key of seals, base64")
    parser.add_argument("--seals", type=Path, help="seals kept from GET /v1/audit/seals")
    parser.add_argument("--json", action="store_true")
