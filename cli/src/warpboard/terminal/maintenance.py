"""Maintenance of a platform on this machine: replay, audit, backup, restore, repair and gc."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import click
import msgspec
from click import IntRange

from shared.api.audits import AuditReport, AuditRequest
from shared.presentation.report_parts import ProgressText
from shared.presentation.responses import JsonObject, parse_response
from warpboard.domain.exit_codes import FAILED, OK
from warpboard.service.context import AppContext, RecordedEvent
from warpboard.service.machine import AuditOptions, RepairOptions, ReplayOptions
from warpboard.service.maintenance import (
    collection_lines,
    export_lines,
    import_lines,
    repair_lines,
    replay_lines,
    report_lines,
    scrub_lines,
)
from warpboard.terminal import options
from warpboard.terminal.command_types import local_command

TARGET_LENGTH_MAX = 500


@local_command(
    "server replay --projection ranker --switch",
    parameters=(
        click.option(
            "--projection",
            type=click.Choice(["ranker", "archive"]),
            default="ranker",
            show_default=True,
            help="The read models, or the second copy of the log.",
        ),
        click.option(
            "--source",
            type=click.Choice(["stream", "archive", "file"]),
            default="stream",
            show_default=True,
            help="Where to read the events.",
        ),
        click.option("--file", type=options.FILE, help="A backup of the log, for --source file."),
        click.option(
            "--switch", "is_switched", is_flag=True, help="Let readers see the rebuilt one."
        ),
    ),
    access=options.folder_options,
)
async def replay(context: AppContext, **values: Any) -> int:
    """Rebuild a projection from event 1 and compare.

    Exit code 0 if both are equal, else 1.
    """
    folder = context.folder(context.place)
    comparison = context.books.replay(folder, ReplayOptions(**values))
    answer = await _show_while(context, "folding again", comparison)
    context.show(answer, replay_lines(answer))
    return OK if answer["is_equal"] else FAILED


@local_command(
    "server audit matmul CPU --as-of 2026-11-21T12:00:00Z",
    parameters=(
        click.argument("problem"),
        click.argument("gpu"),
        click.option(
            "--version", type=IntRange(min=1), help="The problem's version; default: the newest."
        ),
        click.option("--as-of", type=options.Instant(), help="The leaderboard at that instant."),
        click.option("--as-of-seq", type=IntRange(min=1), help="The leaderboard after that event."),
        click.option("--file", type=options.FILE, help="A backup of the log: no server is needed."),
        click.option(
            "--key", "keys", multiple=True, metavar="KEY", help="A seal's public key, base64."
        ),
        click.option(
            "--seals", type=options.FILE, help="Seals that you saved from GET /v1/audit/seals."
        ),
    ),
    access=options.folder_options,
)
async def audit(context: AppContext, file: Path | None, seals: Path | None, **values: Any) -> int:
    """Derive a leaderboard again, and check the log behind it.

    It is that of a PROBLEM on a GPU type. The report explains every row by its events. Exit code 0
    if everything is correct, else 1.
    """
    folder = context.folder(context.place)
    audit_options = AuditOptions(msgspec.convert(values, AuditRequest), file, seals)
    derivation = context.books.audit(folder, audit_options)
    answer = await _show_while(context, "deriving again", derivation)
    report = parse_response(answer, AuditReport)
    context.show(answer, report_lines(report))
    return OK if report.is_clean else FAILED


@local_command(
    "server backup log.gz",
    parameters=(
        click.argument("file", type=options.NEW_FILE),
        click.option(
            "--without-blobs",
            is_flag=True,
            help="Leave out sources, logs and other blobs; the backup records that.",
        ),
        click.option(
            "--without-accounts",
            is_flag=True,
            help="Leave out names, passwords and webhooks; the backup records that.",
        ),
        # Blobs are always included now; older scripts still pass this option.
        click.option("--blobs", is_flag=True, hidden=True, expose_value=False),
    ),
    access=options.folder_options,
)
async def backup(
    context: AppContext, file: Path, *, without_blobs: bool, without_accounts: bool
) -> int:
    """Back up the log into FILE, with blobs and accounts beside it.

    The platform may run. FILE.manifest.json has the size and SHA-256 of each. Exit code 1 if the
    store lacks a blob that an event names.
    """
    left_out = ["blobs"] * without_blobs + ["accounts"] * without_accounts
    export = context.books.export(context.folder(context.place), file, left_out)
    answer = await _show_while(context, "backing up", export)
    context.show(answer, export_lines(answer))
    return FAILED if answer.get("blobs_missing") else OK


@local_command(
    "server restore log.gz --folder restored",
    parameters=(
        click.argument("file", type=options.FILE),
        click.option(
            "--incomplete", is_flag=True, help="Restore what there is, and report what is missing."
        ),
    ),
    access=options.operator_options,
)
async def restore(context: AppContext, file: Path, *, incomplete: bool) -> int:
    """Restore a backup FILE into a folder whose log is empty.

    Its platform must be down. Every file of the backup is verified before anything is changed.
    """
    if context.place.url:
        raise click.UsageError("a log is restored into a --folder of this machine, not at a --url")
    actor = f"operator:{context.operator(context.place)}"
    restoration = context.books.import_(
        context.folder(context.place), file, actor, is_incomplete_allowed=incomplete
    )
    answer = await _show_while(context, "restoring", restoration)
    return context.show(answer, import_lines(answer))


@local_command("server scrub", access=options.folder_options)
async def scrub(context: AppContext) -> int:
    """Compare the log with its archive, event by event.

    Exit code 0 if nothing is wrong. It lists the events that the log lacks and those that differ,
    whether the platform runs or not.
    """
    comparison = context.books.scrub(context.folder(context.place))
    answer = await _show_while(context, "comparing with the archive", comparison)
    context.show(answer, scrub_lines(answer))
    return OK if answer["is_clean"] else FAILED


@local_command(
    "server repair repaired.gz",
    parameters=(
        click.argument("file", type=options.NEW_FILE),
        click.option(
            "--overwrite", is_flag=True, help="Where both differ, use the archive's event."
        ),
        click.option(
            "--accept-loss", is_flag=True, help="Continue without events that are lost everywhere."
        ),
    ),
    access=options.operator_options,
)
async def repair(context: AppContext, **values: Any) -> int:
    """Restore events that a log lacks from its archive.

    Its platform must be down. It writes the whole log into the new FILE first; if it is
    interrupted, repeat it with the same FILE.
    """
    if context.place.url:
        raise click.UsageError("a log is repaired in a --folder of this machine, not at a --url")
    actor = f"operator:{context.operator(context.place)}"
    repairs = context.books.repair(
        context.folder(context.place), RepairOptions(actor=actor, **values)
    )
    answer = await _show_while(context, "repairing the log", repairs)
    return context.show(answer, repair_lines(answer))


@local_command(
    'server gc --apply --reason "the disk is nearly full"',
    parameters=(
        click.option("--apply", "is_applied", is_flag=True, help="Remove them."),
        click.option("--reason", metavar="TEXT", help="Why, for the log; needed with --apply."),
    ),
    access=options.operator_options,
)
async def gc(context: AppContext, reason: str | None, *, is_applied: bool) -> int:
    """List or remove blobs that no event names.

    They are older than two days; --apply removes them.
    """
    if context.place.url:
        raise click.UsageError("blobs are collected beside a --folder of this machine")
    folder, step = context.folder(context.place), "looking for blobs"
    if is_applied:
        if not reason:
            raise click.UsageError("--apply needs a --reason: it is kept in the log")
        # The log records who asked for it, and why, before anything is removed.
        target = str(folder)[-TARGET_LENGTH_MAX:]
        body = {"command": "gc --apply", "target": target, "reason": reason}
        async with context.office(context.place) as api:
            await api.act(RecordedEvent, "POST", "admin", "acted", body=body)
        step = "removing blobs"
    collection = context.books.collect(folder, is_trial=not is_applied)
    answer = await _show_while(context, step, collection)
    return context.show(answer, collection_lines(answer))


async def _show_while(
    context: AppContext, step: str, operation: Awaitable[JsonObject]
) -> JsonObject:
    """Wait, and show the progress."""
    name = context.folder(context.place).name
    with context.screen.live([name]) as live:
        live.show(name, ProgressText(step))
        return await operation
