"""Fetches what a report on a submission is made of beside its answer: the files of its run."""

import json
from urllib.parse import quote

from discord_edge.domain.report import Attached, Card, report
from discord_edge.service.ports import Api, User
from shared.errors import Refused
from shared.telling.answers import Answer, File, Submission, read

# What is larger is not fetched, whatever Discord takes: the report says where it is.
FETCH_BYTES_MAX, TOGETHER_BYTES_MAX = 8 * 1024 * 1024, 20 * 1024 * 1024
FETCHES_MAX, FILES_MAX = 7, 50
# What a program reads, and few ask for: the answer lists it.
UNTOLD = frozenset({"samples.json.gz"})


async def reported(api: Api, user: User, answer: Answer) -> Card:
    """The report on a submission that is over, with its files. Errors: Failed."""
    found = read(answer, Submission)
    told = {name: one for name, one in answer.items() if name != "source"}
    files: list[Attached] = []
    room = TOGETHER_BYTES_MAX
    for one in [file for file in found.files if file.name not in UNTOLD][:FILES_MAX]:
        is_wanted = one.bytes <= min(room, FETCH_BYTES_MAX) and len(files) < FETCHES_MAX
        files.append(await _fetched(api, user, found.number, one, is_wanted=is_wanted))
        room -= len(files[-1].data or b"")
    # What a participant reads comes before what a program does.
    files.append(Attached("result.json", json.dumps(told, indent=1).encode()))
    return report(found, files)


async def _fetched(api: Api, user: User, number: int, file: File, *, is_wanted: bool) -> Attached:
    path = f"/v1/submissions/{number}/files/{quote(file.name, safe='')}"
    data = None
    if is_wanted:
        try:
            data = await api.file(user, path)
        except Refused:
            # It is not kept any more, which is no reason to tell nothing.
            data = None
    link = f"{api.public_url}{path}" if api.public_url else ""
    return Attached(file.name, data, file.bytes, link)
