"""What the edge says and takes, without Discord: nothing foreign is obeyed, limits are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discord_edge.bot.drawing import BODY_MAX, embed
from discord_edge.bot.paging import buttons
from discord_edge.domain import tables
from discord_edge.domain.report import Card, report
from discord_edge.domain.status import Status, evolve
from discord_edge.domain.tables import ROWS, WIDTH_MAX
from discord_edge.domain.wishes import Board, check_attachment, matching, matching_gpus
from discord_edge.domain.wording import escaped, fenced, refusal
from shared.errors import Refused
from shared.telling.answers import Case, Submission

TEXT = st.text(max_size=300)
SLUGS = [f"b{place}_" * 12 for place in range(20)]
OVER = {
    "number": 7,
    "problem": "sort",
    "problem_number": 1,
    "gpu": "CPU",
    "mode": "test",
    "name": "k.py",
    "state": "finished",
    "version": 9,
    "is_over": True,
    "outcome": "passed",
    "verdict": "passed",
}


@given(TEXT)
def test_foreign_text_ends_no_block_and_calls_nobody(text: str) -> None:
    block = fenced(text)
    assert "```" not in block[len("```text\n") : -len("\n```")]
    line = escaped(text)
    assert "@everyone" not in line
    assert "<@" not in line
    assert "\n" not in line


@given(st.lists(st.tuples(TEXT, TEXT, st.booleans()), max_size=60), TEXT)
def test_a_report_keeps_discords_limits(cases: list[tuple[str, str, bool]], log: str) -> None:
    made = [
        Case(name=name, stage="check", verdict="wrong" if bad else "passed", message=said)
        for name, said, bad in cases
    ]
    found = Submission(
        **{**OVER, "outcome": "failed", "verdict": "wrong", "stage": "check"},  # type: ignore[arg-type]
        cases=made,
        log_tail=log * 100,
    )
    card = report(found)
    assert len(card.body) <= 4096
    assert len(card.title) <= 256
    assert len(card.title) + len(card.body) + len(card.footer) <= 6000
    assert card.body.count("```") == 2
    assert card.body.endswith("```")


@given(st.lists(st.tuples(TEXT, st.floats(0.001, 1e9)), max_size=40), st.integers(-3, 9))
def test_a_table_is_narrow_and_its_page_is_there(
    rows: list[tuple[str, float]], number: int
) -> None:
    items = [
        {"rank": n + 1, "participant": name, "score_us": score, "number": n}
        for n, (name, score) in enumerate(rows)
    ]
    page = tables.ranking("t", items, number)
    assert 0 <= page.number < page.count
    lines = page.card.body.split("\n")[1:-1]
    assert len(lines) <= ROWS + 1
    assert all(len(line) <= WIDTH_MAX for line in lines)


def test_a_list_of_leaderboards_on_many_gpu_types_is_a_card() -> None:
    gpus = tuple(f"G_{place}" * 6 for place in range(25))
    best = {(slug, gpu): 12.5 for slug in SLUGS for gpu in gpus}
    page = tables.boards([Board(slug, gpus) for slug in SLUGS], 1, "*" * 900, best)
    assert len(page.card.body) <= BODY_MAX
    assert len(embed(Card("t", "b" * 9000)).description or "") <= BODY_MAX


def test_pages_of_long_names_have_no_button_that_discord_refuses() -> None:
    page = tables.paged("t", ["line"] * 30, 0)
    assert buttons("show", "s" * 95, "g" * 40, page) is None


HEARD = ("JobQueued", "RunCompleted", "SubmissionCancelRequested", "queue", "progress", "odd")


@given(st.lists(st.sampled_from(HEARD)), TEXT)
def test_a_status_is_a_message_whatever_is_heard(kinds: list[str], text: str) -> None:
    status = Status(7, "sort", "test", "CPU")
    stages = [{"stage": text, "verdict": text, "took_s": 1.0}]
    for place, kind in enumerate(kinds):
        said = {"id": place, "stage": text, "why": text, "state": text, "stages": stages}
        status = evolve(status, kind, said)
    assert len(status.text) <= 2000
    assert "@everyone" not in status.text
    # Whatever comes after it, it is being cancelled until the end.
    assert status.is_cancelling == ("SubmissionCancelRequested" in kinds)
    assert status.is_cancelling <= ("being cancelled; " in status.text)


def test_a_status_shows_each_stage_once_from_progress_and_from_the_end() -> None:
    build = {"stage": "build", "verdict": "passed", "took_s": 1.0, "cases": 0}
    check = {"stage": "check", "verdict": "wrong_answer", "took_s": 2.0, "cases": 3}
    status = Status(7, "sort", "test", "CPU")
    step = {"stage": "check", "case": "n=1", "done": 0, "total": 3, "stages": [build]}
    status = evolve(status, "progress", step)
    assert [line[0] for line in status.done] == ["✅"]
    status = evolve(status, "RunCompleted", {"id": 9, "stages": [build, check]})
    assert [line[0] for line in status.done] == ["✅", "❌"]
    assert evolve(status, "progress", {"stages": "odd"}).done == status.done


@given(TEXT, TEXT)
def test_a_refusal_calls_nobody_and_has_its_id(reason: str, code: str) -> None:
    said = refusal(Refused(code[:30], f"@everyone {reason}"), "77")
    assert "@everyone" not in said
    assert said.endswith("`77`")
    assert len(said) <= 2000


@given(TEXT, st.lists(st.text(min_size=1, max_size=120), max_size=60))
def test_no_more_is_offered_than_discord_shows(typed: str, names: list[str]) -> None:
    assert len(matching(typed, names)) <= 25
    assert len(matching_gpus(typed, names)) <= 25


@pytest.mark.parametrize(
    ("name", "size", "code"),
    [("k.txt", 1, "bad_file"), ("k.py", 0, "bad_file"), ("k.py", 1 << 30, "source_too_large")],
)
def test_a_file_that_is_none_is_not_read(name: str, size: int, code: str) -> None:
    with pytest.raises(Refused) as refused:
        check_attachment(name, size)
    assert refused.value.code == code
