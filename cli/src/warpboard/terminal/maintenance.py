"""Maintenance of a platform on this machine: replay, audit, backup, restore, repair and gc."""

from pathlib import Path
from typing import Any

import click
import msgspec
from click import Path as PathType

from shared.api.audits import AuditRequest
from warpboard.service.machine import AuditOptions, RepairOptions, ReplayOptions
from warpboard.service.maintenance import MaintenanceCommands
from warpboard.terminal import options
from warpboard.terminal.context import AppContext, PlatformTarget, run

NEW_FILE = PathType(dir_okay=False, path_type=Path)


def _create_maintenance(
    context: AppContext, folder: Path | None, as_json: bool
) -> MaintenanceCommands:
    return MaintenanceCommands(context.books, context.screen, context.folder(folder), as_json)


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
    help="Where to read the events.",
)
@click.option("--file", type=options.FILE, help="A backup of the log, for --source file.")
@click.option("--switch", "is_switched", is_flag=True, help="Let readers see the rebuilt one.")
@options.as_json
@options.folder
@options.pass_app
def replay(context: AppContext, /, folder: Path | None, *, as_json: bool, **values: Any) -> int:
    """Rebuild a projection from event 1 and compare.

    Exit code 0 if both are equal, else 1.

    \b
    Example:
      warpboard server replay --projection ranker --switch
    """
    return run(_create_maintenance(context, folder, as_json).replay(ReplayOptions(**values)))


@click.command()
@click.argument("problem")
@click.argument("gpu")
@click.option(
    "--version", type=click.IntRange(min=1), help="The problem's version; default: the newest."
)
@click.option("--as-of", type=options.Instant(), help="The leaderboard at that instant.")
@click.option("--as-of-seq", type=click.IntRange(min=1), help="The leaderboard after that event.")
@click.option("--file", type=options.FILE, help="A backup of the log: no server is needed.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="A seal's public key, base64.")
@click.option("--seals", type=options.FILE, help="Seals that you saved from GET /v1/audit/seals.")
@options.as_json
@options.folder
@options.pass_app
def audit(
    context: AppContext,
    /,
    folder: Path | None,
    file: Path | None,
    seals: Path | None,
    *,
    as_json: bool,
    **values: Any,
) -> int:
    """Derive a leaderboard again, and check the log behind it.

    It is that of a PROBLEM on a GPU type. The report explains every row by its events. Exit code 0
    if everything is correct, else 1.

    \b
    Example:
      warpboard server audit matmul CPU --as-of 2026-11-21T12:00:00Z
    """
    audit_options = AuditOptions(msgspec.convert(values, AuditRequest), file, seals)
    return run(_create_maintenance(context, folder, as_json).audit(audit_options))


@click.command()
@click.argument("file", type=NEW_FILE)
@click.option(
    "--without-blobs",
    is_flag=True,
    help="Leave out sources, logs and other blobs; the backup records that.",
)
@click.option(
    "--without-accounts",
    is_flag=True,
    help="Leave out names, passwords and webhooks; the backup records that.",
)
# Blobs are always included now; older scripts still pass this option.
@click.option("--blobs", is_flag=True, hidden=True)
@options.as_json
@options.folder
@options.pass_app
def backup(
    context: AppContext, /, folder: Path | None, file: Path, *, as_json: bool, **values: bool
) -> int:
    """Back up the log into FILE, with blobs and accounts beside it.

    The platform may run. FILE.manifest.json has the size and SHA-256 of each. Exit code 1 if the
    store lacks a blob that an event names.

    \b
    Example:
      warpboard server backup log.gz
    """
    left_out = [part for part in ("blobs", "accounts") if values[f"without_{part}"]]
    return run(_create_maintenance(context, folder, as_json).export(file, left_out))


@click.command()
@click.argument("file", type=options.FILE)
@click.option(
    "--incomplete", is_flag=True, help="Restore what there is, and report what is missing."
)
@options.as_json
@options.operator_options
@options.pass_app
def restore(
    context: AppContext, /, place: PlatformTarget, file: Path, *, incomplete: bool, as_json: bool
) -> int:
    """Restore a backup FILE into a folder whose log is empty.

    Its platform must be down. Every file of the backup is verified before anything is changed.

    \b
    Example:
      warpboard server restore log.gz --folder restored
    """
    if place.url:
        raise click.UsageError("a log is restored into a --folder of this machine, not at a --url")
    actor = f"operator:{context.operator(place)}"
    maintenance = _create_maintenance(context, place.folder, as_json)
    return run(maintenance.import_(file, actor, is_incomplete_allowed=incomplete))


@click.command()
@options.as_json
@options.folder
@options.pass_app
def scrub(context: AppContext, /, folder: Path | None, *, as_json: bool) -> int:
    """Compare the log with its archive, event by event.

    Exit code 0 if nothing is wrong. It lists the events that the log lacks and those that differ,
    whether the platform runs or not.

    \b
    Example:
      warpboard server scrub
    """
    return run(_create_maintenance(context, folder, as_json).scrub())


@click.command()
@click.argument("file", type=NEW_FILE)
@click.option("--overwrite", is_flag=True, help="Where both differ, use the archive's event.")
@click.option(
    "--accept-loss", is_flag=True, help="Continue without events that are lost everywhere."
)
@options.as_json
@options.operator_options
@options.pass_app
def repair(context: AppContext, /, place: PlatformTarget, *, as_json: bool, **values: Any) -> int:
    """Restore events that a log lacks from its archive.

    Its platform must be down. It writes the whole log into the new FILE first; if it is
    interrupted, repeat it with the same FILE.

    \b
    Example:
      warpboard server repair repaired.gz
    """
    if place.url:
        raise click.UsageError("a log is repaired in a --folder of this machine, not at a --url")
    actor = f"operator:{context.operator(place)}"
    repair_options = RepairOptions(actor=actor, **values)
    return run(_create_maintenance(context, place.folder, as_json).repair(repair_options))


@click.command()
@click.option("--apply", "is_applied", is_flag=True, help="Remove them.")
@click.option("--reason", metavar="TEXT", help="Why, for the log; needed with --apply.")
@options.as_json
@options.operator_options
@options.pass_app
def gc(
    context: AppContext,
    /,
    place: PlatformTarget,
    reason: str | None,
    *,
    is_applied: bool,
    as_json: bool,
) -> int:
    """List or remove blobs that no event names.

    They are older than two days; --apply removes them.

    \b
    Example:
      warpboard server gc --apply --reason "the disk is nearly full"
    """
    if place.url:
        raise click.UsageError("blobs are collected beside a --folder of this machine")
    maintenance = _create_maintenance(context, place.folder, as_json)
    if not is_applied:
        return run(maintenance.collect())
    if not reason:
        raise click.UsageError("--apply needs a --reason: it is kept in the log")
    return context.operate(place, lambda api: maintenance.remove(api, reason))
