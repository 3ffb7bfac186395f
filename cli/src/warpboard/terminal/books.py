"""What keeps the books of a platform on this machine: replay, audit, backup, restore, gc."""

from pathlib import Path
from typing import Any

import click
from click import Path as PathType

from warpboard.service.keeping import Keeping
from warpboard.service.machine import Auditing, Repairing, Replaying
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place, run

NEW_FILE = PathType(dir_okay=False, path_type=Path)


def _keeping(desk: Desk, folder: Path | None, as_json: bool) -> Keeping:
    return Keeping(desk.books, desk.screen, desk.folder(folder), as_json)


@click.command()
@click.option(
    *("--projection", "projection"),
    type=click.Choice(["ranker", "archive"]),
    default="ranker",
    show_default=True,
    help="The read models, or the second copy of the log.",
)
@click.option(
    *("--source", "source"),
    type=click.Choice(["stream", "archive", "file"]),
    default="stream",
    show_default=True,
    help="Where the events are read.",
)
@click.option("--file", type=options.FILE, help="A backup of the log, for --source file.")
@click.option("--switch", "is_switched", is_flag=True, help="Let readers see the new one.")
@options.as_json
@options.folder
@click.pass_obj
def replay(desk: Desk, /, folder: Path | None, *, as_json: bool, **asked: Any) -> int:
    """Fold a projection anew from event 1 and compare: exit code 0 if equal, 1 if not.

    \b
    Example:
      warpboard replay --projection ranker --switch
    """
    return run(_keeping(desk, folder, as_json).replay(Replaying(**asked)))


@click.command()
@click.argument("problem")
@click.argument("gpu")
@click.option("--version", type=click.IntRange(min=1), help="Of the problem; else the newest.")
@click.option("--as-of", type=options.Instant(), help="The leaderboard at that instant.")
@click.option("--as-of-seq", type=click.IntRange(min=1), help="The leaderboard after that event.")
@click.option("--file", type=options.FILE, help="A backup of the log: no server is needed.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="A seal's public key, base64.")
@click.option("--seals", type=options.FILE, help="Seals that you kept of GET /v1/audit/seals.")
@options.as_json
@options.folder
@click.pass_obj
def audit(desk: Desk, /, folder: Path | None, *, as_json: bool, **asked: Any) -> int:
    """Derive the leaderboard of a PROBLEM on a GPU type anew, and check the log behind it.

    Every row is explained by its events. Exit code 0 if all is as it must be, else 1.

    \b
    Example:
      warpboard audit matmul CPU --as-of 2026-11-21T12:00:00Z
    """
    return run(_keeping(desk, folder, as_json).audit(Auditing(**asked)))


@click.command()
@click.argument("file", type=NEW_FILE)
@click.option(
    "--without-blobs",
    is_flag=True,
    help="Leave sources, logs and other blobs out; the backup says so.",
)
@click.option(
    "--without-accounts",
    is_flag=True,
    help="Leave names, passwords and webhooks out; the backup says so.",
)
# Blobs always belong to it now; older scripts still ask for them.
@click.option("--blobs", is_flag=True, hidden=True)
@options.as_json
@options.folder
@click.pass_obj
def backup(desk: Desk, /, folder: Path | None, file: Path, *, as_json: bool, **asked: bool) -> int:
    """Back up the log into FILE, and blobs and accounts beside it; the platform may run.

    FILE.manifest.json has the size and SHA-256 of each. Exit code 1 if a blob that an event names
    is not in the store any more.

    \b
    Example:
      warpboard backup log.gz
    """
    left_out = [part for part in ("blobs", "accounts") if asked[f"without_{part}"]]
    return run(_keeping(desk, folder, as_json).export(file, left_out))


@click.command()
@click.argument("file", type=options.FILE)
@click.option("--incomplete", is_flag=True, help="Restore what there is, and say what is not.")
@options.as_json
@options.office
@click.pass_obj
def restore(desk: Desk, /, place: Place, file: Path, *, incomplete: bool, as_json: bool) -> int:
    """Restore a backup FILE into a folder whose log is empty and whose platform is down.

    Every file of the backup is verified before anything is changed.

    \b
    Example:
      warpboard restore log.gz --folder restored
    """
    if place.url:
        raise click.UsageError("a log is restored into a --folder of this machine, not at a --url")
    actor = f"operator:{desk.operator(place)}"
    keeping = _keeping(desk, place.folder, as_json)
    return run(keeping.import_(file, actor, is_incomplete_allowed=incomplete))


@click.command()
@options.as_json
@options.folder
@click.pass_obj
def scrub(desk: Desk, /, folder: Path | None, *, as_json: bool) -> int:
    """Compare the log with its archive, event by event: exit code 0 if nothing is wrong.

    It names the events that are missing from the log, and those that differ, whether the platform
    runs or not.

    \b
    Example:
      warpboard scrub
    """
    return run(_keeping(desk, folder, as_json).scrub())


@click.command()
@click.argument("file", type=NEW_FILE)
@click.option("--overwrite", is_flag=True, help="Where both differ, take the archive's event.")
@click.option("--accept-loss", is_flag=True, help="Go on without events that are nowhere.")
@options.as_json
@options.office
@click.pass_obj
def repair(desk: Desk, /, place: Place, *, as_json: bool, **asked: Any) -> int:
    """Put back what the log of a folder lacks, whose platform is down, from its archive.

    The whole log is written into the new FILE first; broken off, repeat it with the same FILE.

    \b
    Example:
      warpboard repair repaired.gz
    """
    if place.url:
        raise click.UsageError("a log is repaired in a --folder of this machine, not at a --url")
    actor = f"operator:{desk.operator(place)}"
    repairing = Repairing(actor=actor, **asked)
    return run(_keeping(desk, place.folder, as_json).repair(repairing))


@click.command()
@click.option("--apply", "is_applied", is_flag=True, help="Remove them.")
@click.option("--reason", metavar="TEXT", help="Why, for the log; needed with --apply.")
@options.as_json
@options.office
@click.pass_obj
def gc(desk: Desk, /, place: Place, reason: str | None, *, is_applied: bool, as_json: bool) -> int:
    """Say which blobs no event names, older than two days; with --apply, remove them.

    \b
    Example:
      warpboard gc --apply --reason "the disk is nearly full"
    """
    if place.url:
        raise click.UsageError("blobs are collected beside a --folder of this machine")
    keeping = _keeping(desk, place.folder, as_json)
    if not is_applied:
        return run(keeping.collect())
    if not reason:
        raise click.UsageError("--apply needs a --reason: it is kept in the log")
    return desk.operate(place, lambda api: keeping.remove(api, reason))


COMMANDS = (replay, audit, scrub, backup, restore, repair, gc)
