"""Maintenance of a platform on this machine: replay, audit, backup, restore, repair and gc."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import click
from click import IntRange

from shared.api.audits import AuditReport, ContestAuditReport, LogReport, RatingAuditReport
from shared.api.contest_standings import StandingRound
from shared.api.fields import JsonObject, parse_response
from shared.licences import LICENCES
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import (
    count_text,
    instant_text,
    one_line,
    pooled_text,
    rank_text,
    time_text,
)
from warpboard.context import AppContext, RecordedEvent
from warpboard.domain.output import FAILED, OK
from warpboard.processes.maintenance import (
    ShowStep,
    run_alone,
    run_beside_platform,
    run_beside_servers,
    run_in_folder,
)
from warpboard.terminal import options
from warpboard.terminal.options import local_command

TARGET_LENGTH_MAX = 500
FINDINGS_MAX = 20


def _option_words(values: dict[str, Any]) -> list[str]:
    words = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


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
        click.option("--switch", is_flag=True, help="Let readers see the rebuilt one."),
    ),
    access=options.DATA_FOLDER,
)
async def replay(context: AppContext, **values: Any) -> int:
    """Rebuild a projection from event 1 and compare.

    Exit code 0 if both are equal, else 1.
    """
    with show_steps(context, "folding again") as show:
        words = _option_words(values)
        answer = await run_beside_platform(context.folder, "replay", *words, show=show)
    context.show(answer, replay_lines(answer))
    return OK if answer["is_equal"] else FAILED


@local_command(
    "server audit matmul CPU --as-of 2026-11-21T12:00:00Z",
    parameters=(
        click.argument("problem", required=False),
        click.argument("gpu", required=False),
        click.option(
            "--version", type=IntRange(min=1), help="The problem's version; default: the newest."
        ),
        click.option(
            "--contest", metavar="SLUG", help="The standing of a contest, instead of a leaderboard."
        ),
        click.option(
            "--round",
            type=click.Choice(get_args(StandingRound)),
            help="Of a --contest; default: the newest that began.",
        ),
        click.option("--rating", is_flag=True, help="The rating over all problems instead."),
        click.option("--as-of", type=options.Instant(), help="As of that instant."),
        click.option("--as-of-seq", type=IntRange(min=1), help="As of that event."),
        click.option("--file", type=options.FILE, help="A backup of the log: no server is needed."),
        click.option(
            "--key", "keys", multiple=True, metavar="KEY", help="A seal's public key, base64."
        ),
        click.option(
            "--seals", type=options.FILE, help="Seals that you saved from GET /v1/audit/seals."
        ),
    ),
    access=options.DATA_FOLDER,
)
async def audit(
    context: AppContext,
    problem: str | None,
    gpu: str | None,
    keys: tuple[str, ...],
    **values: Any,
) -> int:
    """Derive a leaderboard, a contest or the rating again, and check the log.

    It is the leaderboard of a PROBLEM on a GPU type, with the events that made each row, the
    standing and the results of a --contest, as organisers see them, or the --rating. Exit code 0 if
    everything is correct, else 1.
    """
    _check_audited(problem, gpu, values)
    names = [name for name in (problem, gpu) if name is not None]
    answer = await _run_audit(context, names, keys, values)
    report: LogReport
    if values["rating"]:
        report = parse_response(answer, RatingAuditReport)
        context.show(answer, rating_report_lines(report))
    elif values["contest"]:
        report = parse_response(answer, ContestAuditReport)
        context.show(answer, contest_report_lines(report))
    else:
        report = parse_response(answer, AuditReport)
        context.show(answer, report_lines(report))
    return OK if report.is_clean else FAILED


def _check_audited(problem: str | None, gpu: str | None, values: dict[str, Any]) -> None:
    """Refuse options of one kind of audit for another."""
    is_of_board = problem is not None or values["version"] is not None
    if values["rating"] and (is_of_board or values["contest"]):
        reason = "--rating audits all problems: name no PROBLEM, GPU, --version or --contest"
        raise click.UsageError(reason)
    if values["contest"] and is_of_board:
        raise click.UsageError("--contest audits a contest: name no PROBLEM, GPU or --version")
    is_other = values["rating"] or values["contest"]
    if not is_other and (problem is None or gpu is None):
        raise click.UsageError("name a PROBLEM and a GPU type, or --contest SLUG, or --rating")
    if values["round"] and not values["contest"]:
        raise click.UsageError("--round is a round of a --contest")


async def _run_audit(
    context: AppContext, names: list[str], keys: tuple[str, ...], values: dict[str, Any]
) -> dict[str, Any]:
    """Run an audit, and return its report."""
    arguments = ["audit", *names, "--json", *_option_words(values)]
    for key in keys:
        arguments += ["--key", key]
    environ = context.settings.environ
    with show_steps(context, "deriving again") as show:
        # An audit of a file needs no server.
        if values["file"]:
            return await run_alone(environ, *arguments, show=show)
        return await run_in_folder(context.folder, environ, *arguments, show=show)


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
    ),
    access=options.DATA_FOLDER,
)
async def backup(
    context: AppContext, file: Path, *, without_blobs: bool, without_accounts: bool
) -> int:
    """Back up the log into FILE, with blobs and accounts beside it.

    The platform may run. FILE.manifest.json has the size and SHA-256 of each. Exit code 1 if the
    store lacks a blob that an event names.
    """
    left_out = ["blobs"] * without_blobs + ["accounts"] * without_accounts
    arguments = ["export", str(file), *(f"--without-{part}" for part in left_out)]
    environ = context.settings.environ
    with show_steps(context, "backing up") as show:
        answer = await run_in_folder(context.folder, environ, *arguments, show=show)
    context.show(answer, export_lines(answer))
    return FAILED if answer.get("blobs_missing") else OK


@local_command(
    "server restore log.gz --folder restored",
    parameters=(
        click.argument("file", type=options.FILE),
        click.option(
            "--incomplete", is_flag=True, help="Restore what there is, and report what is missing."
        ),
        click.option(
            "--identity", type=options.FILE, help="The secret key, if the backup is encrypted."
        ),
        click.option(
            "--seal-key",
            type=options.FILE,
            help="The old platform's seal key; without it a new key is made, and the log says so.",
        ),
    ),
    access=options.OPERATOR,
)
async def restore(
    context: AppContext,
    file: Path,
    *,
    incomplete: bool,
    identity: Path | None,
    seal_key: Path | None,
) -> int:
    """Restore a backup FILE into a folder whose log is empty.

    Its platform must be down. Every file of the backup is verified before anything is changed.
    """
    if context.place.url:
        raise click.UsageError("a log is restored into a --folder of this machine, not at a --url")
    values = {"incomplete": incomplete, "identity": identity, "seal_key": seal_key}
    words = _option_words({"actor": f"operator:{context.operator}", **values})
    arguments, environ = ("import", str(file), *words), context.settings.environ
    with show_steps(context, "restoring") as show:
        answer = await run_beside_servers(context.folder, environ, *arguments, show=show)
    return context.show(answer, import_lines(answer))


@local_command(
    "archive build kernels",
    parameters=(
        click.argument("folder_", metavar="FOLDER", type=options.NEW_FOLDER),
        click.option(
            "--licence",
            type=click.Choice(LICENCES),
            help="Of sources whose authors chose that of the platform; default: its setting.",
        ),
    ),
    access=options.DATA_FOLDER,
)
async def build_release(context: AppContext, folder_: Path, *, licence: str | None) -> int:
    """Write the next release of the kernel archive into FOLDER, as Parquet.

    It has what the log gained since the last one there; its README.md shows how to load it. The key
    of its pseudonyms is beside FOLDER, in a file that must stay secret.
    """
    path = str(folder_.absolute())  # noqa: ASYNC240  (it reads nothing)
    arguments = ["release", path, *_option_words({"licence": licence})]
    environ = context.settings.environ
    with show_steps(context, "building a release") as show:
        answer = await run_in_folder(context.folder, environ, *arguments, show=show)
    return context.show(answer, release_lines(answer))


@local_command("server scrub", access=options.DATA_FOLDER)
async def scrub(context: AppContext) -> int:
    """Compare the log with its archive, event by event.

    Exit code 0 if nothing is wrong. It lists the events that the log lacks and those that differ,
    whether the platform runs or not.
    """
    environ = context.settings.environ
    with show_steps(context, "comparing with the archive") as show:
        answer = await run_in_folder(context.folder, environ, "scrub", show=show)
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
    access=options.OPERATOR,
)
async def repair(context: AppContext, file: Path, **values: Any) -> int:
    """Restore events that a log lacks from its archive.

    Its platform must be down. It writes the whole log into the new FILE first; if it is
    interrupted, repeat it with the same FILE.
    """
    if context.place.url:
        raise click.UsageError("a log is repaired in a --folder of this machine, not at a --url")
    words = _option_words({"actor": f"operator:{context.operator}", **values})
    path = str(file.absolute())  # noqa: ASYNC240  (it reads nothing)
    arguments, environ = ("repair", path, *words), context.settings.environ
    with show_steps(context, "repairing the log") as show:
        answer = await run_beside_servers(context.folder, environ, *arguments, show=show)
    return context.show(answer, repair_lines(answer))


@local_command(
    'server gc --apply --reason "the disk is nearly full"',
    parameters=(
        click.option("--apply", "is_applied", is_flag=True, help="Remove them."),
        click.option("--reason", metavar="TEXT", help="Why, for the log; needed with --apply."),
    ),
    access=options.OPERATOR,
)
async def gc(context: AppContext, reason: str | None, *, is_applied: bool) -> int:
    """List or remove blobs that no event names.

    They are older than two days; --apply removes them.
    """
    if context.place.url:
        raise click.UsageError("blobs are collected beside a --folder of this machine")
    step = "looking for blobs"
    if is_applied:
        if not reason:
            raise click.UsageError("--apply needs a --reason: it is kept in the log")
        # The log records who asked for it, and why, before anything is removed.
        target = str(context.folder)[-TARGET_LENGTH_MAX:]
        body = {"command": "gc --apply", "target": target, "reason": reason}
        async with context.operator_api() as api:
            await api.act(RecordedEvent, "POST", "admin", "acted", body=body)
        step = "removing blobs"
    mode = "--apply" if is_applied else "--dry-run"
    with show_steps(context, step) as show:
        answer = await run_beside_platform(context.folder, "gc", mode, show=show)
    return context.show(answer, collection_lines(answer))


@contextmanager
def show_steps(context: AppContext, operation: str) -> Iterator[ShowStep]:
    """Show an operation, and how much of its steps is done."""
    name = context.folder.name
    with context.screen.live([name]) as show:
        show(name, ProgressText(operation))

        def show_step(step: str, done: int, total: int) -> None:
            count = f": {step}, {done:,} of {total:,}"
            show(name, ProgressText(operation, done, total, estimate=count))

        yield show_step


def report_lines(report: AuditReport) -> Iterator[str]:
    """Describe the audit: what was checked, every row with its events, and the verdict last."""
    board = report.board
    moment = f", as of {report.as_of}" if report.as_of else ""
    name = f"{board.problem} on {board.gpu}, version {board.number}"
    yield f"{name}{moment}, event {report.seq}"
    yield from _log_lines(report)
    yield f"  runs   {report.verified_runs} signed by enrolled agents"
    yield from _live_lines(report)
    for ignored in report.ignored[:FINDINGS_MAX]:
        yield f"  ignored event {ignored.seq}: {one_line(ignored.what)}"
    for row in report.rows:
        rank = rank_text(row.rank, row.best_rank, is_tied=row.is_tied)
        score = f"{time_text(row.score_us)} by {row.account}"
        yield f"{rank:>4}  {score}, submission {row.number}{pooled_text(row.pooled_over)}, because"
        for event in row.because:
            cause = f"{event.type} by {event.actor}: {one_line(event.sentence)}"
            yield f"      {event.seq:>6}  {instant_text(event.at)}  {cause}"
    yield from _verdict_lines(report, "leaderboard")


def contest_report_lines(report: ContestAuditReport) -> Iterator[str]:
    """Describe the audit of a contest: what was checked, every place, and the verdict last."""
    moment = f", as of {report.as_of}" if report.as_of else ""
    name = f"{one_line(report.title)}, version {report.version}, {report.round}"
    yield f"{name}{moment}, event {report.seq}"
    yield from _log_lines(report)
    yield from _live_lines(report)
    for division in report.divisions:
        yield f"{one_line(division.title)}: {count_text(len(division.rows), 'contestant')}"
        for row in division.rows:
            rank = rank_text(row.rank, None, is_tied=row.is_tied)
            yield f"{rank:>4}  {row.points:g} points for {row.contestant}, from"
            for entry in row.entries:
                unused = "" if entry.is_counted else ", not counted"
                source = f"{entry.problem}, submission {entry.number}"
                yield f"      {entry.points:g} for {source}{unused}"
    yield from _results_lines(report)
    yield from _verdict_lines(report, "standing")


def _results_lines(report: ContestAuditReport) -> Iterator[str]:
    results = report.results
    if results is None:
        return
    ending = "not confirmed yet"
    if results.confirmed_seq is not None:
        ending = f"confirmed by event {results.confirmed_seq}"
    yield f"results: announced by event {results.proposed_seq}, {ending}"
    for place in results.places:
        yield f"{place.place:>4}  {place.contestant} in {place.division}, {place.points:g} points"
        for reason in place.repetitions:
            yield f"      event {reason.seq}: {one_line(reason.sentence)}"


def rating_report_lines(report: RatingAuditReport) -> Iterator[str]:
    """Describe the audit of the rating: what was checked, every place, and the verdict last."""
    yield f"rating as of {instant_text(report.at)}, event {report.seq}"
    yield from _log_lines(report)
    yield from _live_lines(report)
    for row in report.ratings:
        rank = rank_text(row.rank, None, is_tied=row.is_tied)
        yield f"{rank:>4}  {row.rating:.1f} for {row.participant_id}, from"
        for it in row.problems:
            place = f"rank {it.rank} of {it.entries_count} on {it.problem} on {it.gpu}"
            yield f"      {it.points:.1f} for {place}, submission {it.number}"
    yield from _verdict_lines(report, "rating")


def _live_lines(report: LogReport) -> Iterator[str]:
    if report.live_seq is not None:
        equal = "NOT equal" if report.differences else "equal"
        yield f"  live   {equal} at event {report.live_seq}"


def _verdict_lines(report: LogReport, audited: str) -> Iterator[str]:
    if report.is_clean:
        yield f"clean: the {audited} is what the log says, and the log is untouched"
    for finding in report.findings[:FINDINGS_MAX]:
        yield f"NOT CLEAN from event {finding.seq} on: {one_line(finding.what)}"
    for difference in report.differences[:FINDINGS_MAX]:
        yield f"NOT EQUAL: {one_line(difference)}"


def _log_lines(report: LogReport) -> Iterator[str]:
    yield f"  log    {count_text(report.events, 'event')}, chain {report.chain}"
    keys = f"checked with {', '.join(report.keys)}" if report.keys else "no key to check with"
    yield f"  seals  {report.seals}, {keys}"
    for change in report.key_changes:
        yield f"  key changed at event {change.seq}: {one_line(change.what)}"


def release_lines(answer: JsonObject) -> Iterator[str]:
    """Describe a release.

    >>> answer = {"number": 2, "seq": 90, "folder": "f", "files": 3, "bytes": 2048}
    >>> answer |= {"tables": {"runs": {"rows": 5, "added": 2, "removed": 1}}}
    >>> print(*release_lines(answer), sep="\\n")
    release 2, up to event 90: 3 files, 2,048 bytes in f
      runs: 5 rows, 2 joined, 1 left
    """
    size = f"{answer['files']} files, {answer['bytes']:,} bytes in {answer['folder']}"
    yield f"release {answer['number']}, up to event {answer['seq']}: {size}"
    for name, change in answer["tables"].items():
        joined = f"{change['added']} joined, {change['removed']} left"
        yield f"  {name}: {count_text(change['rows'], 'row')}, {joined}"


def replay_line(answer: JsonObject) -> str:
    """Describe how a rebuilt projection compares with the live one.

    >>> replay_line({"is_equal": True, "seq": 90, "entries": 1, "submissions": 4})
    'rebuilt from event 1: equal (up to event 90: 1 entry, 4 submissions)'
    >>> replay_line({"is_equal": False, "seq": 9, "rows": {"event_archive": 9}})
    'rebuilt from event 1: NOT equal (up to event 9: event_archive 9)'
    """
    result = "equal" if answer.get("is_equal") else "NOT equal"
    rows = answer.get("rows", {})
    if "event_archive" in rows:
        counts = f"event_archive {rows['event_archive']}"
    else:
        entries = count_text(answer.get("entries", 0), "entry", "entries")
        counts = f"{entries}, {count_text(answer.get('submissions', 0), 'submission')}"
    return f"rebuilt from event 1: {result} (up to event {answer.get('seq')}: {counts})"


def replay_lines(answer: JsonObject) -> Iterator[str]:
    """Describe the same with each differing row, and whether readers see the result now."""
    yield replay_line(answer)
    for difference in answer.get("differences", ()):
        rows = f"live {difference.get('live')}, rebuilt {difference.get('rebuilt')}"
        yield f"{difference.get('kind')}: {rows}"
    if answer.get("is_switched"):
        yield "switched: readers see the rebuilt rows"


def export_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what was written."""
    yield f"{count_text(answer['events'], 'event')} in {answer['file']}, chain {answer['chain']}"
    if "blobs" in answer:
        yield f"{count_text(answer['blobs'], 'blob')} beside it, in {answer['file']}.blobs.tar"
    if "participants" in answer:
        participants = count_text(answer["participants"], "participant")
        file = f"{answer['file']}.accounts.tar.gz"
        yield f"{participants} with names and webhooks in {file}: keep it secret"
    if answer.get("seal_key"):
        yield f"the seal key {answer['seal_key']} is not in it: copy it to where you keep secrets"
    if answer.get("is_folder_open"):
        folder = Path(answer["file"]).absolute().parent
        yield f"other users can list the folder {folder}, but not read the files: chmod 700 it"
    if answer.get("left_out"):
        left_out = ", ".join(answer["left_out"])
        yield f"LEFT OUT: {left_out}; without these, the backup does not restore the platform"
    if answer.get("blobs_missing"):
        yield f"MISSING: {count_text(len(answer['blobs_missing']), 'blob')} that events name"


def import_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what was restored."""
    blobs = count_text(answer["blobs"], "blob")
    yield f"{count_text(answer['events'], 'event')} and {blobs} imported, chain {answer['chain']}"
    if answer.get("participants"):
        participants = count_text(answer["participants"], "participant")
        yield f"{participants} restored with names and webhooks"
    if answer.get("lacking"):
        yield f"NOT RESTORED: {', '.join(answer['lacking'])}"
    if answer.get("blobs_missing"):
        yield f"MISSING: {count_text(len(answer['blobs_missing']), 'blob')} that events name"
    yield f"recorded as event {answer['recorded_seq']}; warpboard up folds the read models again"
    if answer.get("seal_key"):
        yield from _seal_key_lines(answer["seal_key"])


def _seal_key_lines(change: JsonObject) -> Iterator[str]:
    if not change["is_change"]:
        yield f"seals are signed with the key of {change['old_path']}, as before"
        return
    was_at = f", in {change['old_path']} when the backup was made" if change["old_path"] else ""
    yield f"NEW SEAL KEY: the old seals are signed with {change['old_key']}{was_at}"
    yield f"new ones are signed with {change['new_key']}, in {change['file']}"
    yield "the log records the change, so that an audit accepts both"
    yield "to keep the old key, restore into another folder with --seal-key FILE"


def scrub_lines(answer: JsonObject) -> Iterator[str]:
    """Describe how the log compares with its archive.

    >>> nothing = {"count": 0, "ranges": []}
    >>> said = {"is_clean": False, "last_seq": 9, "log_last_seq": 9, "archive_last_seq": 8}
    >>> said |= {"missing": {"count": 3, "ranges": [[2, 3], [7, 7]]}, "unarchived": nothing}
    >>> said |= {"lost": nothing, "differing": nothing, "archive_findings": []}
    >>> for line in scrub_lines(said):
    ...     print(line)
    log: 9 events, archive: 8 events
    MISSING from the log: 3 events: 2 to 3, 7
    NOT CLEAN: see docs/operating/log-damaged.md
    """
    log, archive = answer["log_last_seq"], answer["archive_last_seq"]
    yield f"log: {count_text(log, 'event')}, archive: {count_text(archive, 'event')}"
    for part, description in (
        ("missing", "MISSING from the log"),
        ("lost", "LOST from log and archive"),
        ("differing", "DIFFERENT in log and archive"),
        ("unarchived", "not archived yet"),
    ):
        if answer[part]["count"]:
            count = count_text(answer[part]["count"], "event")
            yield f"{description}: {count}: {_ranges_text(answer[part])}"
    for finding in answer["archive_findings"][:FINDINGS_MAX]:
        yield f"ARCHIVE NOT CLEAN from event {finding['seq']} on: {one_line(finding['what'])}"
    if answer["is_clean"]:
        yield "clean: the log has every event, and the archive has the same ones"
    else:
        yield "NOT CLEAN: see docs/operating/log-damaged.md"


def _ranges_text(answer: JsonObject) -> str:
    ranges = answer["ranges"]
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    more = ", and more" if len(texts) > FINDINGS_MAX else ""
    return ", ".join(texts[:FINDINGS_MAX]) + more


def repair_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what was restored from the archive."""
    yield from (line for line in scrub_lines(answer) if not line.startswith("NOT CLEAN"))
    if not answer["is_repaired"]:
        return
    yield f"repaired: {count_text(answer['events'], 'event')}, chain {answer['chain']}"
    yield f"recorded as event {answer['recorded_seq']}; all of it is in {answer['file']} too"


def collection_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what a collection of blobs removed, or would remove."""
    action = "would be removed" if answer["is_trial"] else "removed"
    size = f"{answer['removed_bytes']:,} bytes"
    yield f"{count_text(answer['removed'], 'blob')} that no event names {action} ({size})"
    yield f"of {count_text(answer['blobs'], 'blob')}, {answer['blobs_old']} older than two days"
    if answer["is_trial"] and answer["removed"]:
        yield "to remove them: warpboard server gc --apply --reason TEXT"
