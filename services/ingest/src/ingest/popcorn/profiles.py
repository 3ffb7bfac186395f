"""What profilers saw, as the client unpacks it: a report to read and a zip for each case."""

import base64
import io
import re
import zipfile
from collections.abc import Mapping, Sequence

from ingest.popcorn.result_shapes import FullResult
from ingest.popcorn.results import evaluated, full_result, protocol, stages
from ingest.popcorn.seen import File, Shown

TRACE_BYTES_MAX = 20_000_000
REPORT_BYTES_MAX = 200_000
_FILE = re.compile(r"profile-(\d+)-([A-Za-z0-9._-]+)\Z")
# What the client looks for in a zip, and what is read by people, the best first.
NCU = ("ncu-details.txt", "ncu-details.csv", ".ncu-rep")
READABLE = ("ncu-details.txt", "ncu.txt", "table.txt")
# The same date in each zip, so that equal files make an equal one.
_DATE = (1980, 1, 1, 0, 0, 0)


def cases(seen: Shown) -> dict[int, list[File]]:
    """The files of a profile by the index of their case."""
    found: dict[int, list[File]] = {}
    for file in seen.files:
        if match := _FILE.match(file.name):
            found.setdefault(int(match[1]), []).append(file)
    return found


def archive_name(number: int, index: int) -> str:
    """What a case's zip is called.

    >>> archive_name(12, 0)
    'profile-12-0.zip'
    """
    return f"profile-{number}-{index}.zip"


def archive(files: Sequence[File], contents: Mapping[str, bytes]) -> bytes:
    """One case's files as a zip; ncu's text and table under names that the client unpacks."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as folder:
        for file in files:
            entry = zipfile.ZipInfo(_unpacked_name(file.name), _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            folder.writestr(entry, contents[file.name])
    return made.getvalue()


def _unpacked_name(name: str) -> str:
    """A file's name inside the zip.

    >>> _unpacked_name("profile-0-ncu.txt"), _unpacked_name("profile-1-trace.json.gz")
    ('0-ncu-details.txt', '1-trace.json.gz')
    """
    match = _FILE.match(name)
    if match is None:
        return name
    inner = {"ncu.txt": "ncu-details.txt", "ncu.csv": "ncu-details.csv"}.get(match[2], match[2])
    return f"{match[1]}-{inner}"


def readable(files: Sequence[File]) -> File | None:
    """The file of a case that people read, None if there is none."""
    for end in READABLE:
        for file in files:
            if file.name.endswith(end):
                return file
    return None


def profiler(seen: Shown, files: Sequence[File]) -> str:
    """Which profiler saw a case."""
    if any(file.name.endswith((*NCU, "ncu.txt", "ncu.csv")) for file in files):
        return "Nsight-Compute"
    return "rocPROF" if seen.gpu.startswith("MI") else "torch.profiler"


def profile_result(
    seen: Shown, contents: Mapping[str, bytes], links: Mapping[int, str]
) -> FullResult:
    """FullResult of a profile: for each case `profile.N` with its report and its trace.

    `contents` are the files by name; a case in `links` is too large and goes by its address.
    """
    found: FullResult = {**full_result(seen), "runs": {}}
    stage = next((one for one in stages(seen) if one.ours == "profile"), None)
    if stage is None:
        return found
    by_case = cases(seen)
    for index, case in enumerate(stage.cases):
        files = by_case.get(index, [])
        one = stage._replace(cases=[case], is_passed=case.verdict == "passed")
        text = readable(files)
        told = protocol(one)
        if text is not None and text.name in contents:
            shown = contents[text.name][:REPORT_BYTES_MAX]
            told["benchmark.0.report"] = _base64(shown.decode("utf-8", "replace").encode())
        link = links.get(index)
        said = evaluated(seen, one, told)
        said["profile"] = {
            "profiler": profiler(seen, files),
            "trace": "" if link or not files else _base64(archive(files, contents)),
            "download_url": link,
        }
        found["runs"][f"profile.{index}"] = said
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
