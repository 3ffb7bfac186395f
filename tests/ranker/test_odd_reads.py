"""Odd requests get an answer or a clear refusal, never a server error."""

from itertools import product

import pytest

from shared.reader import READER_HEADER, Reader, encode_reader
from tests.support.lives import Life
from tests.support.reading import Reads

pytestmark = pytest.mark.server
ODD = (
    *("", "0", "-1", "1", "1e9", "nan", "inf", "9007199254740993", "99999999999999999999999"),
    *("%00", "%FF", "%F0%9F%98%80", "'", "a" * 300, "null", "true", "../x", "%2e%2e"),
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00%2B14:00"),
)
QUERIES = {
    "problems": ("state", "contest", "cursor", "limit"),
    "problems/identity": ("version",),
    "problems/identity/files/task.py": ("version",),
    "problems/identity/templates/python": ("gpu", "version"),
    "evaluation/eval.py": ("problem", "version"),
    "records": ("limit",),
    "rating": ("after", "limit", "as_of"),
    "leaderboards/identity/CPU": ("version", "as_of", "at", "cursor", "limit", "records"),
    "leaderboards/identity/CPU/cases": ("version", "limit"),
    "leaderboards/identity/CPU/records": ("version", "limit"),
    "leaderboards/identity/CPU/history": ("participant", "version"),
    "participants/Ada/history": ("problem", "gpu", "version"),
    "submissions": ("problem", "participant", "gpu", "state", "mode", "before", "limit"),
    "me/submissions": ("problem", "gpu", "mode", "state", "tag", "cursor", "limit"),
    "submissions/{number}": ("after", "source"),
    "compare": ("a", "b"),
    "moderation": ("open", "limit"),
    "rejudges": ("limit",),
}
PATHS = (
    *(
        "problems/{}",
        "problems/{}/files/x",
        "problems/{}/templates/x",
        "evaluation/{}?problem=identity",
        "leaderboards/{}/CPU",
        "leaderboards/identity/{}",
    ),
    *("submissions/{}", "submissions/{}/cases", "submissions/{}/events", "submissions/{}/files/x"),
    *("queue/{}", "rejudges/{}", "participants/{}"),
    "participants/{}/history?problem=identity&gpu=CPU",
)
WELL = {200, 304, 400, 401, 403, 404, 410, 422}
# The life's problem has no manifest, and its history no archive.
AWAY = {503}


@pytest.fixture
async def reads(reads: Reads) -> Reads:
    await reads.named("ada", "Ada")
    return reads


@pytest.mark.long
async def test_no_question_breaks_anything(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))
    paths = [
        f"{path.format(number=submission['number'])}?{name}={value}"
        for path, names in QUERIES.items()
        for name, value in product(names, ODD)
    ]
    headers = {
        READER_HEADER: encode_reader(Reader(account="ada", is_staff=True)),
        "Accept": "application/json",
    }
    paths += [path.format(value) for path, value in product(PATHS, ODD) if value]
    for path in paths:
        answer = await reads.http.get(f"/v1/{path}", headers=headers)
        is_file = path.startswith(("problems/identity", "evaluation/"))
        assert answer.status_code in (WELL | AWAY if is_file else WELL), (path, answer.text)
        if answer.status_code >= 400:
            assert isinstance(answer.json()["detail"], str)


async def test_odd_headers_break_nothing(reads: Reads) -> None:
    (submission,) = await reads.ended(Life("s1"))
    for name, value in product(("If-None-Match", "Last-Event-ID", "Accept"), ODD):
        for suffix in ("", "/events?after=99999"):
            headers = {name: value.replace("%", ""), "Accept": "application/json"}
            path = f"/v1/submissions/{submission['number']}{suffix}"
            answer = await reads.http.get(path, headers=headers)
            assert answer.status_code in WELL, (name, value, answer.text)
