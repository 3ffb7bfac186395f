"""A problem that an author is about to publish: its files, its check report and its card."""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from discord_edge.wording import Card, discord_time, escaped
from shared.api.problems import ProblemCheck
from shared.checks.problem_files import SOLUTIONS, add_statement
from shared.errors import Refused
from shared.presentation.units import count_text, untested_text
from shared.problems.competition import parse_deadline
from shared.problems.compilation import ProblemVersion
from shared.problems.document import YAML_BYTES_MAX
from shared.problems.report import CheckReport, read_report
from shared.problems.single_file import SUFFIXES
from shared.problems.sources import STATEMENT
from shared.problems.warpboard_yml import NAME as WARPBOARD
from shared.problems.warpboard_yml import yardstick_path

UPLOAD_BYTES_MAX = 8 * 1024 * 1024
# The uncompressed size of all files of a problem together.
FILES_BYTES_MAX = 16 * 1024 * 1024
FILES_MAX = 256
ENTRIES_MAX = 2000
# Folders beside a problem's files that do not belong to the problem.
LEFT_OUT = frozenset({"solutions", "__pycache__", "__MACOSX"})
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, OSError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError),
)
NEVER = "none"
FINDINGS_SHOWN = 5
TEXT_MAX = 600


def _bad_file(reason: str) -> Refused:
    return Refused("bad_file", reason, "reference_code")


def check_upload(name: str, size: int) -> None:
    """Raise `Refused` for a file that is not a problem, before it is downloaded.

    >>> check_upload("reference.py", 100)
    """
    if not name.endswith((*SUFFIXES, ".zip")):
        kinds = ", ".join(SUFFIXES)
        raise _bad_file(f"attach one reference ({kinds}), or a .zip of the directory with task.yml")
    if not 0 < size <= UPLOAD_BYTES_MAX:
        raise _bad_file(f"the file has {size:,} bytes; expected 1 to {UPLOAD_BYTES_MAX:,}")


def problem_files(name: str, data: bytes, *, has_solutions: bool = False) -> dict[str, bytes]:
    """Return a problem's files by their paths relative to task.yml. Raises `Refused` `bad_file`.

    `has_solutions` keeps the folder of its solutions.

    >>> problem_files("reference.py", b"x")
    {'reference.py': b'x'}
    """
    if not name.endswith(".zip"):
        return {name: data}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = _read_entries(archive, LEFT_OUT - {SOLUTIONS} if has_solutions else LEFT_OUT)
    except UNREADABLE as error:
        raise _bad_file(f"the zip cannot be read: {error}") from error
    # A single folder may contain all files.
    tops = {path.partition("/")[0] for path in files}
    if len(tops) == 1 and all("/" in path for path in files):
        files = {path.partition("/")[2]: data for path, data in files.items()}
    if not 0 < len(files) <= FILES_MAX:
        raise _bad_file(f"the zip has {len(files)} problem files; expected 1 to {FILES_MAX}")
    return files


def _read_entries(archive: zipfile.ZipFile, left_out: frozenset[str]) -> dict[str, bytes]:
    entries = archive.infolist()
    if len(entries) > ENTRIES_MAX:
        raise _bad_file(f"the zip has {len(entries)} entries; the limit is {ENTRIES_MAX}")
    files: dict[str, bytes] = {}
    bytes_left = FILES_BYTES_MAX
    yardsticks = {_find_yardstick(archive, entry) for entry in entries}
    for entry in entries:
        is_problem_file = _is_problem_file(entry.filename, left_out) or entry.filename in yardsticks
        if entry.is_dir() or not is_problem_file:
            continue
        # The sizes that a zip declares are not trusted.
        with archive.open(entry) as file:
            data = file.read(bytes_left + 1)
        bytes_left -= len(data)
        if bytes_left < 0:
            raise _bad_file(f"the files have more than {FILES_BYTES_MAX:,} bytes together")
        files[entry.filename] = data
    return files


def _find_yardstick(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    """Return the entry that a warpboard.yml names as its yardstick, "" if there is none."""
    folder, _, name = entry.filename.rpartition("/")
    if name != WARPBOARD:
        return ""
    with archive.open(entry) as file:
        path = yardstick_path(file.read(YAML_BYTES_MAX))
    return f"{folder}/{path}" if folder else path


def _is_problem_file(path: str, left_out: frozenset[str]) -> bool:
    """Whether an entry belongs to the problem. Raises `Refused` for a path that leaves the zip."""
    parts = path.split("/")
    if "" in parts or ".." in parts or "\\" in path:
        raise _bad_file(f"the zip has a file with an unsafe path: {path[:80]!r}")
    return not any(part in left_out or part.startswith(".") for part in parts)


def parse_check_report(data: bytes, slug: str) -> CheckReport:
    """Read a report of `problem check --json`. Raises `Refused` `bad_report`."""
    try:
        content: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = f"the report is not JSON: {error}; attach the output of `problem check --json`"
        raise Refused("bad_report", reason, "report") from error
    problems = content.get("problems") if isinstance(content, dict) else None
    if isinstance(problems, list):
        objects = [problem for problem in problems if isinstance(problem, dict)]
        matches = [problem for problem in objects if problem.get("slug") == slug]
        if len(matches) != 1:
            slugs = ", ".join(str(problem.get("slug"))[:95] for problem in objects[:9])
            reason = f"the report is about {slugs or 'no problem'}, not about {slug}; the "
            reason += "leaderboard must have the name of the problem's directory"
            raise Refused("bad_report", reason, "report")
        # The command also says where the files were and how long the check took.
        fields = CheckReport.model_fields
        content = {key: value for key, value in matches[0].items() if key in fields}
    return read_report(json.dumps(content))


@dataclass(frozen=True)
class ProblemDraft:
    """A problem with its settings; `unchecked` says why there is no report.

    An agent has checked it, or its author sent a report.

    `allows_untested` accepts GPU types on which the check ran nothing.
    """

    version: ProblemVersion
    ends_at: datetime | None
    gpus: tuple[str, ...]
    visibility: str
    report: CheckReport | ProblemCheck | None
    unchecked: str = ""
    allows_untested: bool = False

    @property
    def fields(self) -> dict[str, object]:
        """The form fields to publish beside the files."""
        fields: dict[str, object] = {
            "slug": self.version.slug,
            "deadline": NEVER if self.ends_at is None else self.ends_at.isoformat(),
            "gpu": list(self.gpus),
            "visibility": self.visibility,
            "report": self.report.model_dump_json() if isinstance(self.report, CheckReport) else "",
            "unchecked": self.unchecked,
            "allow_untested": "true" if self.allows_untested else "",
        }
        return {name: value for name, value in fields.items() if value != ""}


def check_card(check: ProblemCheck) -> Card:
    """Show how far the check of a problem is, or why it cannot be published."""
    findings = [it for it in check.findings if it.level == "error"]
    findings += [it for it in check.findings if it.level != "error"]
    lines = [escaped(check.text, TEXT_MAX)]
    for it in findings[:FINDINGS_SHOWN]:
        mark = "❌" if it.level == "error" else "⚠"
        lines.append(f"{mark} `{it.code}` {escaped(it.where)}: {escaped(it.text, TEXT_MAX)}")
    if len(findings) > FINDINGS_SHOWN:
        lines.append(f"and {len(findings) - FINDINGS_SHOWN} more")
    if not check.is_over:
        lines.append(f"It ends without a result {discord_time(check.deadline_at, 'R')}.")
    return Card(f"Check of {check.slug}", "\n".join(lines), footer="nothing is published yet")


def add_description(
    files: Mapping[str, bytes], description: str | None, *, is_checked: bool
) -> dict[str, bytes]:
    r"""Return the files with a description. Raises `Refused` if the files already have one.

    >>> add_description({"a.py": b""}, "Copy it.", is_checked=False)
    {'a.py': b'', 'statement.md': b'Copy it.\n'}
    """
    if description is None:
        return dict(files)
    described = add_statement(files, description)
    if is_checked:
        reason = f"the report covers the files as they are: write the description into {STATEMENT}"
        raise Refused("invalid_request", f"{reason} and run the check again", "description")
    return described


def parse_closing_time(text: str, now: datetime) -> datetime | None:
    """Parse a deadline; the word `none` means None. Raises `Refused` `bad_deadline`.

    >>> from datetime import UTC
    >>> str(parse_closing_time("2026-12-01 18:00", datetime(2026, 1, 1, tzinfo=UTC)))
    '2026-12-01 18:00:00+00:00'
    """
    if text.strip().lower() == NEVER:
        return None
    parsed = parse_deadline(text.strip())
    if parsed is None:
        reason = f"`{text[:40]}` is not a deadline: write 2026-12-01 18:00 (UTC), or {NEVER}"
        raise Refused("bad_deadline", reason, "deadline")
    if parsed <= now:
        reason = f"{parsed:%Y-%m-%d %H:%M} UTC is in the past: choose a later time"
        raise Refused("bad_deadline", reason, "deadline")
    return parsed


def deadline_text(at: datetime | None) -> str:
    """Format a deadline so that Discord shows it in the reader's time zone.

    >>> deadline_text(None)
    'never'
    """
    return "never" if at is None else discord_time(at, "F")


def draft_card(draft: ProblemDraft) -> Card:
    """Show what would be published."""
    version = draft.version
    cases = ", ".join(
        count_text(count, name.removesuffix("s").replace("_", " "))
        for name, count in version.cases_count.items()
    )
    lines = [
        f"closes {deadline_text(draft.ends_at)}",
        f"GPU types {escaped(', '.join(draft.gpus))}",
        f"visible to {'everybody' if draft.visibility == 'public' else 'members only'}",
        f"cases {escaped(cases)} · ranked by {escaped(version.ranking_by)}",
        f"version `{version.digest[:12]}`",
        *_check_lines(draft),
        *(f"⚠ {escaped(warning)}" for warning in version.warnings[:FINDINGS_SHOWN]),
    ]
    title = f"{escaped(version.title, 100)} ({version.slug})"
    return Card(title, "\n".join(lines), footer="nothing is published yet")


def _check_lines(draft: ProblemDraft) -> list[str]:
    if draft.report is None:
        return [f"not checked: {escaped(draft.unchecked)}"]
    findings = draft.report.findings
    lines = [f"⚠ {it.code} {escaped(it.where)}: {escaped(it.text)}" for it in findings]
    if isinstance(draft.report, CheckReport):
        solutions = count_text(len(draft.report.solutions), "solution")
        summary = f"checked: {solutions}, {count_text(len(findings), 'warning')}"
    else:
        warnings = count_text(len(findings), "warning")
        summary = f"checked on {escaped(draft.report.gpu)}: {warnings}"
    untested = [gpu for gpu in draft.gpus if gpu not in draft.report.tested_gpus]
    if untested:
        summary += f"; {untested_text(map(escaped, untested))}"
    return [summary, *lines[:FINDINGS_SHOWN]]
