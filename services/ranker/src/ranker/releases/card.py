"""The data card of a release: what Hugging Face reads of the folder, and how people load it."""

from collections.abc import Iterator

from ranker.releases.files import DATA
from ranker.releases.tables import SPLITS, TABLES
from shared.api.releases import Release

EXAMPLES = (
    ("pandas", 'pandas.read_parquet("data/verdicts")'),
    ("polars", 'polars.read_parquet("data/verdicts/**/*.parquet")'),
    ("DuckDB", "select * from 'data/verdicts/**/*.parquet'"),
    ("datasets", 'datasets.load_dataset("FOLDER", "sources", split="train")'),
)


INTRODUCTION = """
Participants submitted these kernels to public leaderboards, and the platform checked and timed
them. [SCHEMA.md](SCHEMA.md) describes every column.
"""
NOTES = """
The splits are by family of problems, so that no model is tested on a problem whose siblings it has
seen. The family is the problem's name without its set and sizes; the split is the first byte of the
SHA-256 of `split/FAMILY`, modulo 10: 8 is validation, 9 is test, and the others are train. Bans and
environments belong to no problem and are in train.

`exchange/kernelbench` has the results as KernelBench reports them (`correct`, speed-ups over eager
and compiled torch, fast_p per level), and `exchange/flashinfer` has solutions and traces in the
form of FlashInfer-Trace. Their definition is the problem's version; it is included if the problem
was made of such a definition, because other problems do not have their shapes as expressions.

## People

Participants are pseudonyms, which differ in every data set. Each source has the licence that its
author gave it (`licence`), which binds you. Sources join once their leaderboard publishes them.
Names, ids, addresses, mentions, paths and secrets in comments and strings are replaced. A
submission that its owner withdraws leaves with the next release: `tombstones` lists its number, and
you must drop it, too. Earlier releases then list files that are gone.
"""


def card_lines(release: Release) -> Iterator[str]:
    """The page, in Markdown; its head has the folders of each table and split."""
    yield from ("---", "license: other", "tags: [gpu-kernels, code, performance]", "configs:")
    for table in TABLES:
        splits = {file.split for file in release.files if file.table == table}
        if splits:
            yield f"- config_name: {table}"
            yield "  data_files:"
            for split in (name for name in SPLITS if name in splits):
                yield f"  - split: {split}"
                yield f"    path: {DATA}/{table}/{split}/*.parquet"
    yield from ("---", "", "# Kernels and their results", "")
    at = f", {release.at:%Y-%m-%d}" if release.at else ""
    yield f"Release {release.number}: the platform's log up to event {release.seq}{at}."
    yield from INTRODUCTION.splitlines()
    yield ""
    yield "| table | rows | joined | left | a row is |"
    yield "|---|---|---|---|---|"
    for name, change in release.tables.items():
        numbers = f"{change.rows} | {change.added} | {change.removed}"
        yield f"| `{name}` | {numbers} | {TABLES[name].text} |"
    yield from ("", "## Loading", "")
    for name, code in EXAMPLES:
        yield f"- {name}: `{code}`"
    yield from NOTES.splitlines()
