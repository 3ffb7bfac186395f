"""What leaves the platform as files and numbers has no secret: releases of the archive, metrics."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from ranker.releases.builder import Dataset, build_release
from shared import events, subjects
from tests.access.embargoed_contest import (
    ENTRIES,
    SECOND,
    STAGES,
    EmbargoedContest,
    Stage,
    open_embargoed_contest,
)
from tests.access.judging import EVERYBODY, Judge

pytestmark = [pytest.mark.server, pytest.mark.long]

KEY = b"k" * 32
FIRST_HOUR = 1
# The numbers of a data set and of metrics count other things than ranks.
COUNTED = "rank"


def read_files(folder: Path) -> dict[str, str]:
    """Return the text of each file of a release, also of tables in Parquet."""
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    texts = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".parquet":
            texts[name] = "\n".join(map(str, parquet.read_table(path).to_pylist()))
        else:
            texts[name] = path.read_text(encoding="utf-8", errors="replace")
    return texts


async def release(contest: EmbargoedContest, judge: Judge, stage: Stage, folder: Path) -> None:
    """Build a release of everything up to now, and search its files and the metrics."""
    # A release is judged by the time of the last event, so that it can be built again.
    fact = events.PreferenceSet(preference="threads", value="default")
    await contest.say(subjects.account(contest.account("oscar")), fact)
    dataset = Dataset(folder, KEY, "CC-BY-4.0", [])
    await build_release(contest.log, contest.ways.reads.blobs, dataset)
    texts = {f"release {name}": text for name, text in read_files(folder).items()}
    texts["metrics"] = prometheus_client.generate_latest().decode()
    for surface, text in texts.items():
        found = [it for it in judge.find(text) if it.secret.kind != COUNTED]
        judge.judge(found, surface, EVERYBODY, stage)


@pytest.mark.feature("N14")
async def test_no_release_and_no_metric_has_a_secret_before_its_phase(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with open_embargoed_contest(postgres_dsn, monkeypatch) as contest:
        judge = Judge()
        for name in {entry.name for entry in ENTRIES}:
            licence = events.PreferenceSet(preference="licence", value="MIT")
            await contest.say(subjects.account(contest.account(name)), licence)
        for stage, following in pairwise(STAGES):
            await contest.receive(stage.hour, following.hour)
            if following.hour < FIRST_HOUR:
                continue
            contest.set_hour(following.hour, -SECOND)
            await release(contest, judge, stage, tmp_path / f"{following.hour}-before")
            contest.set_hour(following.hour)
            await release(contest, judge, following, tmp_path / f"{following.hour}-after")
            judge.check()
        # The test can fail: releases tell scores, and in the archive sources.
        assert {kind for pairs in judge.told.values() for _, kind in pairs} == {"score", "source"}
