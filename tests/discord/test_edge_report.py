"""What a report says of a submission, part by part, and what everybody is told of one."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from discord_edge.leaderboards import tables
from discord_edge.submissions.report import comparison_card, kernel_lines, public_times, report_card
from discord_edge.wording import Attachment, Card, fit_attachments
from shared.api.cases import Case
from shared.api.leaderboards import ComparedCase, Comparison, Entry, PersonalRecord
from shared.api.problems import Problem
from shared.api.submissions import FullSubmission, Ranking
from tests.support.api_examples import make_example

RANKING = {
    "status": "ranked",
    "rank": 2,
    "is_tied": True,
    "score_us": 9.0,
    "interval_us": [8.9, 9.1],
    "own_best_us": 10.0,
    "delta_to_next": 1e-6,
    "delta_to_best": 3e-6,
}
TIMED = {
    "name": "size=64",
    "stage": "time",
    "verdict": "passed",
    "time_us": 9.0,
    "interval_us": [8.9, 9.1],
    "process_us": [8.95, 9.0, 9.2],
    "roofline": {"share": 0.85, "bound": "memory"},
    "vs_baseline": {"eager": 2.5},
}
HIDDEN = {"name": "hidden", "stage": "hidden_check", "verdict": "passed", "is_hidden": True}
OVER = {
    "number": 7,
    "problem": "sort",
    "problem_version": 3,
    "gpu": "H100",
    "mode": "ranked",
    "name": "k.py",
    "state": "finished",
    "version": 9,
    "is_over": True,
    "is_eligible": True,
    "outcome": "passed",
    "verdict": "passed",
    "took_s": 8.4,
    "agent": "agent-1",
    "level": "strong",
    "tier": "G1",
    "fingerprint": "abcdef",
    "environment": {"gpu": "NVIDIA H100", "cuda_driver": "12.4", "torch": "2.6.0"},
    "ranking": RANKING,
    "cases": [{"name": "n=1", "stage": "check", "verdict": "passed"}, HIDDEN, TIMED],
}
MEBI = 1024 * 1024


def found(**other: Any) -> FullSubmission:
    values: dict[str, Any] = {**OVER, **other}
    values["cases"] = [make_example(Case, **case) for case in values["cases"]]
    values["ranking"] = values["ranking"] and make_example(Ranking, **values["ranking"])
    return make_example(FullSubmission, **values)


def file_of(card: Card, name: str) -> str:
    [data] = [one.data for one in card.files if one.name == name]
    assert data is not None
    return data.decode()


def test_a_ranked_report_has_rank_gaps_stages_times_and_machine() -> None:
    card = report_card(found())
    for said in (
        "✅ **passed** · ranked on H100 in 8.4 s",
        "score 9 ± 0.1 µs (8.9 µs to 9.1 µs)",
        "rank 2= of sort on H100: the intervals of these entries overlap, or their sources are",
        "1 µs (10 %) faster than your best before, 1 µs behind the next place, 3 µs behind the",
        "  eager     ━━━━━━━━━━━━━━━━━━━━  2.50x",
        "  roofline  ━━━━━━━━━━━━━━━━━     85 % of memory",
        "✅ build: passed",
        "✅ check: passed 1/1",
        "✅ hidden run: passed",
        "✅ time: passed 1/1",
        "size=64  9 ± 0.1 µs  8.95 µs  9.2 µs",
        "85 % of memory, 2.5x eager",
    ):
        assert said in card.body.replace("\\", ""), said
    for said in ("version 3 on H100", "agent-1", "cuda_driver 12.4", "fingerprint abcdef"):
        assert said in card.footer


def test_a_build_failure_is_explained() -> None:
    said = {"outcome": "failed", "verdict": "compile_error", "stage": "build", "cases": []}
    errors = "".join(f"k.cu({line}): error: expected a ;\n" for line in range(3, 200))
    log = {"log_head": f"$ nvcc -O3 k.cu -o kernel\n{errors}", "log_tail": "exit code 1\n"}
    not_ranked = {"status": "not_ranked", "code": "build_failed", "reason": "it failed"}
    reason = f"build failed (compile_error): {errors}"
    card = report_card(found(**said, **log, reason=reason, ranking=not_ranked, is_eligible=False))
    body = card.body.replace("\\", "")
    assert body.startswith(
        "❌ **does not compile** · ranked on H100 in 8.4 s\n"
        "```text\nk.cu(3): error: expected a ;\nk.cu(4): error: expected a ;\n"
    )
    assert "```\n**Fix line 3, then submit the file again.**\nnot ranked (build_failed)\n" in body
    assert "❌ build: does not compile\n⏭ check: skipped\n⏭ hidden run: skipped" in body
    assert body.count("k.cu(3)") == 1
    edge_platform = file_of(card, "report-7.txt")
    assert (
        edge_platform.index("$ nvcc -O3 k.cu")
        < edge_platform.index("k.cu(100)")
        < edge_platform.index("exit code 1")
    )


def test_equal_failures_are_told_once_with_the_first_elements_and_their_number() -> None:
    wrong = {
        "stage": "check",
        "verdict": "wrong_answer",
        "message": "2 of 16 values differ",
        "wrong": 2,
        "mismatches": [{"index": "[0]", "got": "1", "expected": "2"}],
    }
    cases = [{**wrong, "name": f"n={n}"} for n in range(40)]
    said = {"outcome": "failed", "verdict": "wrong_answer", "stage": "check"}
    card = report_card(found(**said, cases=[*cases, OVER["cases"][0]], mode="test"))  # type: ignore[index]
    assert "❌ check: wrong answer 1/41" in card.body
    assert "2 of 16 values differ\n  index  expected  got\n  [0]           2  1\n" in card.body
    assert "40 of 41 cases: n=0, n=1, n=2 and 37 more" in card.body.replace("\\", "")
    assert card.body.count("values differ") == 1


def test_a_long_report_goes_on_in_a_file() -> None:
    frames = "".join(f'  File "k.py", line {n}, in f\n    {n * "x"}\n' for n in range(200, 240))
    text = f"Traceback (most recent call last):\n{frames}ValueError: oops"
    said = {"outcome": "failed", "verdict": "crashed", "stage": "check", "reason": text}
    timed = [{**TIMED, "name": f"n={n}"} for n in range(40)]
    card = report_card(found(**said, cases=timed, log_tail="and it printed this\n" * 20))
    assert "ValueError: oops\n  k.py:239, in f\n  > xxxx" in card.body
    assert "more lines are in the file" in card.body
    assert len(card.body) <= 4096
    assert "and it printed this" in file_of(card, "report-7.txt")


def test_a_hidden_failure_shows_only_its_verdict() -> None:
    hidden = {**HIDDEN, "verdict": "crashed", "message": "", "name": "hidden"}
    said = {"outcome": "failed", "verdict": "crashed", "stage": "hidden_check"}
    card = report_card(found(**said, cases=[OVER["cases"][0], hidden], is_eligible=False))  # type: ignore[index]
    assert "❌ hidden run: crashed" in card.body
    assert "⏭ time: skipped" in card.body
    assert "a hidden case, of which nothing else is shown" in card.body


def test_files_that_are_too_large_are_linked() -> None:
    link = "https://w.example/v1/submissions/7/files/log.txt"
    large = Attachment("log.txt", b"x" * 2 * MEBI, link=link)
    trace = Attachment("trace.json.gz", None, 12 * MEBI)
    card = fit_attachments(
        report_card(found(), [large, trace, Attachment("result.json", b"{}")]), MEBI
    )
    assert [one.name for one in card.files] == ["result.json"]
    assert f"]({link}) 2.0 MiB" in card.body
    assert "12.0 MiB" in card.body
    assert "warpboard submission show 7 --save" in card.body


@given(st.lists(st.tuples(st.text(max_size=90), st.integers(0, 3 * MEBI)), max_size=60), st.text())
def test_a_card_keeps_discords_limits_whatever_the_files(
    files: list[tuple[str, int]], text: str
) -> None:
    given_ = [Attachment(name, None if n % 2 else bytes(n % 999), n) for name, n in files]
    card = fit_attachments(
        report_card(found(log_tail="`" * 9000, agent=text, reason=text), given_), 500
    )
    assert len(card.body) <= 4096
    assert len(card.title) + len(card.body) + len(card.footer) <= 6000
    assert len(card.files) <= 9


def test_the_slowest_kernels_stand_in_a_profiles_report() -> None:
    table = b"  Name   Self CPU %   Self CPU   # of Calls\n----  ---  ---  ---\n"
    table += b" aten::mm   51.21%   33.260ms   1\n aten::relu   0.11%   68.5us   2\n"
    card = report_card(found(mode="profile"), [Attachment("profile-0-table.txt", table)])
    assert "aten::mm     33.260ms      1" in card.body
    assert kernel_lines(b"no table") == kernel_lines(b"\xff\x00") == []
    usage = b" Function axpy:\n  REG:14 STACK:8 SHARED:4096 LOCAL:0 CONSTANT[0]:912\n"
    card = report_card(found(mode="profile"), [Attachment("kernels.txt", usage)])
    assert "axpy: 14 registers, 4,096 B shared, 8 B spilled or on the stack" in card.body


def test_public_times_omit_hidden_cases() -> None:
    said = public_times(found())
    assert said.startswith("```text\ncase")
    assert "size=64" in said
    assert "hidden" not in said
    assert public_times(found(cases=[])) == ""
    many = found(cases=[{**TIMED, "name": f"{'`' * 9}{n}"} for n in range(400)])
    assert len(public_times(many)) <= 1900


def test_a_ranking_shows_changes_since_a_week_ago() -> None:
    items = [
        make_example(
            Entry, rank=n, participant=f"p{n}", participant_id=f"p{n}", score_us=n, number=n
        )
        for n in (1, 2, 3)
    ]
    page = tables.ranking_page("sort on H100", items, 0, before={"p1": 3, "p2": 1})
    rows = [line.split() for line in page.card.body.splitlines()[1:-1]]
    assert [row[1] for row in rows] == ["week", "▲2", "▼1", "new"]
    bare = tables.ranking_page("sort on H100", items, 0, before={})
    assert "week" not in bare.card.body


def test_own_submissions_show_their_ranks() -> None:
    mine = {"name": "k.py", "verdict": "passed", "received_at": "2026-11-21T10:00:00+00:00"}
    items = [make_example(PersonalRecord, **mine, number=n, score_us=12.5 * n) for n in (9, 8)]
    ranks = tables.rank_labels([make_example(Entry, number=8, rank=2, is_tied=True)])
    rows = tables.personal_page("yours", items, 0, ranks).card.body.splitlines()[2:4]
    assert [row.split()[0] for row in rows] == ["-", "2="]
    assert rows[0].endswith("passed   11-21")


def test_the_list_has_a_banner_and_own_best_scores() -> None:
    board = make_example(Problem, slug="sort", gpus=["CPU", "H100"])
    page = tables.leaderboards_page([board], 0, "*work*", {("sort", "H100"): 12.5})
    assert page.card.body == (
        "⛔ submissions are stopped: \\*work\\*\n\n**sort** · open · CPU, H100 (you: 12.5 µs)"
    )


def test_a_list_says_when_a_leaderboard_closes() -> None:
    sort = make_example(Problem, slug="sort", gpus=["CPU"], deadline_at="2026-01-01T00:00:00Z")
    page = tables.leaderboards_page([sort], 0, best={("sort", "CPU"): 12.5})
    assert page.card.body == "**sort** · closes <t:1767225600:R> · CPU (you: 12.5 µs)"


def test_a_comparison_shows_the_times_and_their_ratio() -> None:
    score = {"name": "score", "a_us": 2.0, "b_us": 1.0, "ratio": 0.5, "outcome": "faster"}
    comparison = make_example(Comparison, score=make_example(ComparedCase, **score))
    assert comparison_card(comparison).body == (
        "```text\nscore: 2 µs to 1 µs, ratio 0.5, faster\n```"
    )
