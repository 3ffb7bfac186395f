"""Each read by each caller, compared with docs/access.md; and no answer tells what it must not."""

import re
from collections.abc import Iterator

import httpx
import pytest

from ingest.http.document import read_paths
from tests.access.table import YES, cell, is_of, table
from tests.support.documents import Document
from tests.support.town import CLOSED, MARK, Town

pytestmark = [pytest.mark.server, pytest.mark.timeout(240)]

READS = table("Reads")
NAMES = {"owner": "ada", "operator's token": "operator"}
# In no answer to anybody but that of the seals, whose key is public. And who sees ada's sources.
SECRETS = re.compile(rb'"(key|seed|secret_seed|secret|token_hash|subject)":|Traceback')
STAFF = ("owner", "moderator", "admin", "operator's token")
# These say what is not there in words of their own: the number or name that was asked for.
NUMBER = re.compile(r"\d+|[0-9a-f]{8}-[0-9a-f-]{27}")


class Asking:
    """Everybody's answers to a read."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.http = httpx.Client(base_url=town.url, timeout=30)
        self.document = Document(self.http.get("/v1/openapi.json").json())

    def headers(self, caller: str) -> dict[str, str]:
        """How somebody shows who they are; a history comes as an array."""
        tokens = {"nobody": {}, "operator": self.town.operator, **self.town.tokens}
        return {"Accept": "application/json", **tokens[NAMES.get(caller, caller)]}

    def get(self, path: str, caller: str) -> httpx.Response:
        """The answer, with the numbers of the town in the path."""
        found = path.format(harness=self.town.harness, **self.town.numbers)
        answer = self.http.get(found, headers=self.headers(caller))
        media = answer.headers.get("content-type", "")
        self.document.check(("GET", found), answer.status_code, media, answer.content)
        return answer


@pytest.fixture(scope="module")
def asking(town: Town) -> Iterator[Asking]:
    found = Asking(town)
    yield found
    found.http.close()


def test_every_read_is_in_the_table() -> None:
    paths = [route.partition(" ")[2] for route in READS]
    missing = [one for one in read_paths() if not any(is_of(one, path) for path in paths)]
    assert not missing, "docs/access.md does not name them"
    unknown = [path for path in paths if not any(is_of(one, path) for one in read_paths())]
    assert not unknown, "docs/access.md names what is not there"


@pytest.mark.parametrize("route", READS)
def test_each_caller_reads_what_the_table_says(asking: Asking, route: str) -> None:
    path, expected = route.partition(" ")[2], READS[route]
    answers = {caller: asking.get(path, caller) for caller in expected}
    found = {caller: cell(answer.status_code) for caller, answer in answers.items()}
    assert found == expected
    for caller, answer in answers.items():
        # The key of the seals is public, and so is what the harness is written like.
        is_public = path.startswith(("/v1/audit/", "/v1/harnesses/"))
        assert is_public or not SECRETS.search(answer.content), f"{caller}: {answer.text}"
        assert caller in STAFF or MARK not in answer.text, caller
        if CLOSED not in path and "{closed}" not in path and expected[caller] == YES:
            is_seeing = READS[f"GET /v1/problems/{CLOSED}"][caller] == YES
            assert is_seeing or f'"{CLOSED}"' not in answer.text, f"{caller} hears of {CLOSED}"


@pytest.mark.parametrize("route", [one for one in READS if "{closed}" in one or CLOSED in one])
def test_what_is_closed_is_answered_as_what_never_was(asking: Asking, route: str) -> None:
    path = route.partition(" ")[2]
    never = path.replace(CLOSED, "never").replace("{closed}", "999999")
    for caller in ("nobody", "stranger", "creator", "elsewhere"):
        closed, absent = asking.get(path, caller), asking.get(never, caller)
        said = [
            (one.status_code, one.json()["code"], NUMBER.sub("#", one.json()["detail"]))
            for one in (closed, absent)
        ]
        shown = [(status, code, text.replace("never", CLOSED)) for status, code, text in said]
        assert shown[0] == shown[1], f"{caller}: {closed.text}"
        names = [set(one.headers) for one in (closed, absent)]
        assert names[0] == names[1]
