"""What a run drew from a hidden family counts in its score, and is shown to its author alone."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from harness.hidden_sizes import read_family
from shared import events, subjects
from shared.reader import READER_HEADER, Reader, encode_reader
from tests.support.lives import RUN_KEY, Life, problem, say
from tests.support.reading import STAFF, Reads, as_

pytestmark = pytest.mark.server

FAMILY = {"count": 2, "weight": 3.0, "args": {"size": {"from": 100_000, "to": 900_000}, "seed": 0}}
DRAWN = read_family("benchmarks", FAMILY).draw(bytes.fromhex(RUN_KEY))
AUTHOR = {READER_HEADER: encode_reader(Reader(account="author", owned=["identity"]))}
# The times of the hidden cases, which nobody sees alone.
SECRETS = ("hidden benchmark", "777.125", "666.125", *(str(args["size"]) for args in DRAWN))


class HiddenLife(Life):
    """A run with a public timed case, and with two hidden ones."""

    def completed(self) -> events.RunCompleted:
        """The verdict, with the times of all cases."""
        completed = super().completed()
        (case,) = completed.cases
        hidden = [
            replace(
                case,
                name=f"hidden benchmark {number}",
                message="",
                is_hidden=True,
                time_us=time_us,
                interval_us=(time_us, time_us),
                weight=3.0,
            )
            for number, time_us in ((1, 777.125), (2, 666.125))
        ]
        return replace(completed, cases=[case, *hidden])


async def publish_family(reads: Reads) -> None:
    """Publish a second version, with the family."""
    case = {"name": "size=1", "args": {"size": 1}}
    manifest = {"tests": [case], "benchmarks": [case], "hidden": {"benchmarks": FAMILY}}
    blob = await reads.blobs.put(json.dumps(manifest).encode())
    fact = replace(problem(number=2), manifest=blob, ranking_by="mean")
    await say(reads.log, subjects.problem("identity"), fact)
    await reads.settle()


async def get(reads: Reads, path: str, headers: dict[str, str]) -> Any:
    return await reads.http.get(f"/v1/{path}", headers=headers)


@pytest.mark.feature("N13")
async def test_hidden_sizes_count_by_their_weight_and_only_authors_see_them(reads: Reads) -> None:
    await publish_family(reads)
    await reads.named("ada", "Ada")
    (submission,) = await reads.ended(HiddenLife("s1", problem_number=2))
    assert submission["score_us"] == pytest.approx((100.0 + 3 * 777.125 + 3 * 666.125) / 7)
    number = submission["number"]
    paths = (
        f"submissions/{number}",
        f"submissions/{number}/cases",
        "leaderboards/identity/CPU",
        "leaderboards/identity/CPU/records",
        "leaderboards/identity/CPU/cases",
        "participants/Ada/history?problem=identity&gpu=CPU",
    )
    for path in paths:
        for reader in (None, "grace", "ada"):
            answer = await get(reads, path, as_(reader))
            assert not [secret for secret in SECRETS if secret in answer.text], (path, reader)
    for headers, public in ((STAFF, 1), (AUTHOR, 0)):
        answer = await get(reads, f"submissions/{number}/cases", headers)
        shown = answer.json()[public:]
        assert [case["args"] for case in shown] == [{"size": args["size"]} for args in DRAWN]
        assert [case["estimate"] for case in shown] == [None, None]
        assert len(answer.json()) == 2 + public
