"""The tables of a release: every column with its type and its text, and the pages made of them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

# Names of pyarrow's types; INSTANT is UTC with microseconds.
BOOL, INT, FLOAT, TEXT = "bool_", "int64", "float64", "string"
INSTANT, FLOATS, TEXTS = "instant", "floats", "texts"
ALL = "all"
SPLITS = ("train", "validation", "test")


class Column(NamedTuple):
    """A column; `references` is the table and column that it is a foreign key of."""

    name: str
    type: str
    text: str
    references: str = ""


class Table(NamedTuple):
    """A table: what a row is, and its columns. The first column is the key if `has_key`."""

    text: str
    columns: tuple[Column, ...]
    has_key: bool = False


SEQ = Column("seq", INT, "The event that the row is made of; a row of an older state has less.")
AT = Column("at", INSTANT, "When that event happened.")
SUBMISSION = Column("submission", INT, "The submission.", "submissions.number")
RUN = Column("run", INT, "The run.", "runs.number")
PROBLEM = Column("problem", TEXT, "The problem.", "problems.problem")
VERSION = Column("version", INT, "The number of the problem's version.")
GPU = Column("gpu", TEXT, "The GPU type; CPU is one, too.")
PARTICIPANT = Column(
    "participant", TEXT, "Who submitted: a pseudonym that is the same in the whole data set."
)
SCORE = (
    Column("score_us", FLOAT, "The score: microseconds by the problem's ranking rule."),
    Column("low_us", FLOAT, "The lower end of its 95 % interval."),
    Column("high_us", FLOAT, "The upper end of its 95 % interval."),
    Column("process_us", FLOATS, "The score of each fresh process."),
    Column("error", FLOAT, "The standard error of the score's logarithm."),
    Column("freedom", INT, "Its degrees of freedom."),
    Column("sigma_run", FLOAT, "The run-to-run deviation of the machine, a fraction."),
    Column("delta", FLOAT, "Scores that differ by a smaller share are tied."),
    Column("grade", TEXT, "The worst grade of the times: ok, trend, noisy."),
    Column("yardstick_us", FLOAT, "The score of the yardstick in the same unit."),
)

TABLES: Mapping[str, Table] = {
    "problems": Table(
        "A problem on a public leaderboard.",
        (
            Column("problem", TEXT, "Its name in addresses."),
            SEQ,
            AT,
            Column("family", TEXT, "Its family: problems of one family are in one split."),
            Column("split", TEXT, "train, validation or test, by a hash of the family."),
        ),
        has_key=True,
    ),
    "versions": Table(
        "A version of a problem, which never changes.",
        (
            PROBLEM,
            VERSION,
            SEQ,
            AT,
            Column("title", TEXT, "Its title."),
            Column("digest", TEXT, "The SHA-256 of its manifest."),
            Column("gpus", TEXTS, "The GPU types of its leaderboards."),
            Column("languages", TEXTS, "The languages that it accepts."),
            Column("ranking_by", TEXT, "Its ranking rule: last, mean, geom."),
            Column("publish", TEXT, "When sources are in releases: always, after_close, never."),
            Column("precision", TEXT, "What its operations are counted in, such as fp32."),
        ),
    ),
    "submissions": Table(
        "A ranked submission to a public leaderboard.",
        (
            Column("number", INT, "Its number, which the platform shows."),
            PROBLEM,
            VERSION,
            GPU,
            PARTICIPANT,
            AT,
            Column("language", TEXT, "The language of its entry file."),
            Column("source_group", TEXT, "Equal for equal sources, whoever submitted them."),
            Column("source_bytes", INT, "The length of its files together."),
        ),
        has_key=True,
    ),
    "sources": Table(
        "A source, from the release on in which its leaderboard publishes it.",
        (
            SUBMISSION,
            SEQ,
            PROBLEM,
            GPU,
            Column("language", TEXT, "The language of the entry file."),
            Column("licence", TEXT, "The SPDX licence that its author gave it."),
            Column("consent", TEXT, "Where the licence comes from: submission, account, platform."),
            Column("redactions", INT, "How many names, ids, addresses and paths were replaced."),
            Column("code", TEXT, "The entry file; [name] and the like replace personal data."),
            Column("other_names", TEXTS, "The names of its other files, relative to the entry."),
            Column("other_codes", TEXTS, "Their contents, in the same order."),
        ),
    ),
    "runs": Table(
        "One attempt to run a submission.",
        (
            Column("number", INT, "The sequence of its order, which names it."),
            SUBMISSION,
            SEQ,
            AT,
            Column("kind", TEXT, "submission, rejudge, duel or confirmation."),
            Column("outcome", TEXT, "completed, failed, expired or cancelled."),
            Column("verdict", TEXT, "The harness's verdict, if it completed."),
            Column("stage", TEXT, "The stage in which it ended."),
            Column("attempt", INT, "The number of the attempt."),
            Column("took_s", FLOAT, "Seconds on the device."),
            Column("level", TEXT, "The isolation: strong, medium, weak, none."),
            Column("tier", TEXT, "How times were obtained, such as C1 or G1."),
            Column("sigma_run", FLOAT, "The run-to-run deviation of the machine, a fraction."),
            Column("is_stopped", BOOL, "Whether it ended early, because it could not be ranked."),
            Column("environment", TEXT, "What it ran on.", "environments.environment"),
        ),
        has_key=True,
    ),
    "cases": Table(
        "The result of one case of a run; of a hidden case only stage and verdict.",
        (
            RUN,
            SUBMISSION,
            SEQ,
            Column("place", INT, "Its place in the run, from 0."),
            Column("name", TEXT, "Its name; hidden for a hidden one."),
            Column("stage", TEXT, "check or time."),
            Column("verdict", TEXT, "Its verdict."),
            Column("is_hidden", BOOL, "Whether its inputs are secret."),
            Column("time_us", FLOAT, "The time of one call in microseconds."),
            Column("low_us", FLOAT, "The lower end of its 95 % interval."),
            Column("high_us", FLOAT, "The upper end of its 95 % interval."),
            Column("samples", INT, "How many timed calls count."),
            Column("process_us", FLOATS, "The time in each fresh process."),
            Column("error", FLOAT, "The standard error of the time's logarithm."),
            Column("freedom", INT, "Its degrees of freedom."),
            Column("grade", TEXT, "ok, trend or noisy."),
            Column("yardstick_us", FLOAT, "The time of the yardstick beside it."),
        ),
    ),
    "samples": Table(
        "A timed block of calls in one process of a timed case that is not hidden.",
        (
            RUN,
            SUBMISSION,
            SEQ,
            Column("case", TEXT, "The name of the case, as in `cases`."),
            Column("process", INT, "The fresh process, from 0."),
            Column("pair", INT, "The pair of blocks in it, from 0."),
            Column("side", TEXT, "A: the submission, B: the yardstick, or in a duel the rival."),
            Column("time_us", FLOATS, "The time of each call in microseconds, in order."),
        ),
    ),
    "environments": Table(
        "What runs ran on.",
        (
            Column("environment", TEXT, "A hash of the other columns."),
            Column("harness_code", TEXT, "The SHA-256 of the harness."),
            Column("gpu", TEXT, "The GPU's name."),
            Column("gpu_memory_mib", TEXT, "Its memory."),
            Column("compute_capability", TEXT, "Its compute capability."),
            Column("multiprocessors", TEXT, "How many it has."),
            Column("cuda_driver", TEXT, "The version of CUDA that its driver has."),
            Column("clock", TEXT, "What times were read from, or the clocks of the GPU."),
            Column("cpu", TEXT, "The processor."),
            Column("cores", TEXT, "How many cores it has."),
            Column("python", TEXT, "The version of Python."),
            Column("torch", TEXT, "The version of torch."),
            Column("toolkit", TEXT, "The version of the compiler's toolkit."),
            Column("image", TEXT, "The digest of the image that it ran in."),
        ),
        has_key=True,
    ),
    "verdicts": Table(
        "A decision on a submission: its end, a rejudge, or its score in a fixed unit.",
        (
            SUBMISSION,
            PROBLEM,
            VERSION,
            GPU,
            PARTICIPANT,
            SEQ,
            Column("place", INT, "The order of the decisions of one event."),
            AT,
            Column("kind", TEXT, "finished, rejudged or restated."),
            Column("run", INT, "The run behind it.", "runs.number"),
            Column("outcome", TEXT, "passed, failed, timed_out, cancelled or infra_failed."),
            Column("verdict", TEXT, "The verdict of the run."),
            Column("code", TEXT, "Why it is ranked or not."),
            Column("is_eligible", BOOL, "Whether it may be on the leaderboard."),
            Column("is_held", BOOL, "Whether it waits for a review."),
            Column("is_provisional", BOOL, "Whether its time is provisional."),
            *SCORE,
        ),
    ),
    "labels": Table(
        "What somebody or the platform says of a submission, or a ban or a merge of a participant.",
        (
            SUBMISSION,
            PARTICIPANT,
            SEQ,
            AT,
            Column("label", TEXT, "suspected_cheat, policy_violation, held, precision and others."),
            Column("event", TEXT, "The type of the event that gave it."),
            Column(
                "value",
                TEXT,
                "The rule, if it has a short name; of a precision its class; of a participant that "
                "is merged or separated the one that it is, or was, part of.",
            ),
            Column("until_at", INSTANT, "The end of a ban, if it has one."),
        ),
    ),
    "lineage": Table(
        "The submission that another one comes from, if the release has the sources of both.",
        (
            SUBMISSION,
            SEQ,
            PROBLEM,
            PARTICIPANT,
            Column("parent", INT, "The submission that it comes from.", "submissions.number"),
            Column("parent_participant", TEXT, "Who submitted that one, a pseudonym likewise."),
            Column("is_detected", BOOL, "Whether the platform found it, and nobody declared it."),
            Column(
                "similarity",
                FLOAT,
                "The share of equal code, 0 to 1; null if it is not the one with the most.",
            ),
        ),
    ),
    "baselines": Table(
        "A result of what the platform runs beside a problem's submissions.",
        (
            PROBLEM,
            VERSION,
            GPU,
            SEQ,
            AT,
            Column("name", TEXT, "Such as eager and compile; yardstick for the unit of times."),
            Column("verdict", TEXT, "Its verdict."),
            Column("score_us", FLOAT, "Its score in microseconds."),
        ),
    ),
    "duels": Table(
        "Two sources that were timed in alternation.",
        (
            PROBLEM,
            VERSION,
            GPU,
            SEQ,
            Column(
                "first_source",
                TEXT,
                "The source group A; one that was withdrawn is in no other table.",
            ),
            Column("second_source", TEXT, "The source group B, likewise."),
            Column("winner", TEXT, "A, B or equal."),
            Column("ratio", FLOAT, "The time of A divided by that of B."),
            Column("low", FLOAT, "The lower end of its 95 % interval."),
            Column("high", FLOAT, "The upper end of its 95 % interval."),
        ),
    ),
    "tombstones": Table(
        "A submission that left the data set; nothing else of it is in any table.",
        (
            Column("submission", INT, "Its number."),
            SEQ,
            AT,
            Column("reason", TEXT, "withdrawn, or consent if its owner accepts no publication."),
        ),
    ),
}


# What is derived from the tables, in one file each.
VIEWS_FOLDER = "views"
VIEWS: Mapping[str, Table] = {
    "best_times": Table(
        "An entry of a leaderboard at a public timed case; place 1 is the best of its shape.",
        (
            PROBLEM,
            VERSION,
            GPU,
            Column("case", TEXT, "The name of the case, as in `cases`."),
            Column("place", INT, "Its place at the case by `speedup`, from 1."),
            SUBMISSION,
            PARTICIPANT,
            Column("rank", INT, "Its rank on the leaderboard, at the release."),
            Column(
                "time_us", FLOAT, "The time of one call in microseconds, in the run that counts."
            ),
            Column("low_us", FLOAT, "The lower end of its 95 % interval."),
            Column("high_us", FLOAT, "The upper end of its 95 % interval."),
            Column("yardstick_us", FLOAT, "The time of the yardstick beside it."),
            Column("speedup", FLOAT, "How many times as fast as the yardstick it is."),
        ),
    ),
}


def schema_lines() -> Iterator[str]:
    """The schema page: every table with its columns, in Markdown."""
    yield "# Tables of the kernel archive"
    yield ""
    yield "Every table is a folder of Parquet files. Times are UTC. `seq` orders all rows: those"
    yield "with a `seq` of at most S are the data set as it was after event S of the platform's"
    yield "log, without what was withdrawn since."
    yield from _table_lines(TABLES)
    yield ""
    yield "# Views"
    yield ""
    yield f"A view is a file `{VIEWS_FOLDER}/NAME.parquet`. It is derived from the tables, and"
    yield "written again with each release."
    yield from _table_lines(VIEWS)


def _table_lines(tables: Mapping[str, Table]) -> Iterator[str]:
    for name, table in tables.items():
        yield ""
        yield f"## {name}"
        yield ""
        yield f"{table.text} {'The first column is the key.' if table.has_key else ''}".rstrip()
        yield ""
        yield "| column | type | meaning |"
        yield "|---|---|---|"
        for column in table.columns:
            key = f" Refers to `{column.references}`." if column.references else ""
            yield f"| `{column.name}` | {_type_text(column.type)} | {column.text}{key} |"


def _type_text(kind: str) -> str:
    """The type of a column in words.

    >>> _type_text(FLOATS), _type_text(BOOL)
    ('list of float64', 'bool')
    """
    words = {BOOL: "bool", INSTANT: "timestamp, UTC", FLOATS: "list of float64"}
    return words.get(kind, "list of string" if kind == TEXTS else kind)
