"""What the edge says and takes, without Discord: nothing foreign is obeyed, limits are kept."""

import re

import msgspec
import pytest
from discord import app_commands
from hypothesis import example, given
from hypothesis import strategies as st

from discord_edge.bot.discord_py import BODY_MAX, build_embed
from discord_edge.client import build_command_groups
from discord_edge.leaderboards import tables
from discord_edge.leaderboards.commands import page_buttons
from discord_edge.leaderboards.tables import ROWS, WIDTH_MAX
from discord_edge.notifications.texts import GREETING
from discord_edge.settings import ROLES
from discord_edge.submissions.models import Status, check_attachment, evolve
from discord_edge.submissions.report import report_card
from discord_edge.wording import Card, escaped, fenced, match_gpu_list, match_names, refusal_text
from shared.api.cases import Case
from shared.api.leaderboards import Entry
from shared.api.problems import Problem
from shared.api.submissions import FullSubmission
from shared.errors import Refused
from tests.support.api_examples import make_example

TEXT = st.text(max_size=300)
SLUGS = [f"b{place}_" * 12 for place in range(20)]
OVER = {
    "number": 7,
    "problem": "sort",
    "problem_version": 1,
    "gpu": "CPU",
    "mode": "test",
    "name": "k.py",
    "state": "finished",
    "version": 9,
    "is_over": True,
    "outcome": "passed",
    "verdict": "passed",
}
ENTRY = make_example(Entry)


@given(TEXT)
def test_foreign_text_ends_no_block_and_mentions_nobody(text: str) -> None:
    block = fenced(text)
    assert "```" not in block[len("```text\n") : -len("\n```")]
    line = escaped(text)
    assert "@everyone" not in line
    assert "<@" not in line
    assert "\n" not in line


@given(st.lists(st.tuples(TEXT, TEXT, st.booleans()), max_size=60), TEXT)
def test_a_report_keeps_discords_limits(cases: list[tuple[str, str, bool]], log: str) -> None:
    made = [
        Case(
            name=name,
            stage="check",
            verdict="wrong" if bad else "passed",
            message=said,
            is_hidden=False,
        )
        for name, said, bad in cases
    ]
    failed = {**OVER, "outcome": "failed", "verdict": "wrong", "stage": "check"}
    found = msgspec.structs.replace(
        make_example(FullSubmission, **failed), cases=made, log_tail=log * 100
    )
    card = report_card(found)
    assert len(card.body) <= 4096
    assert len(card.title) <= 256
    assert len(card.title) + len(card.body) + len(card.footer) <= 6000
    assert card.body.count("```") in (2, 4)
    assert card.body.endswith("```")


@given(st.lists(st.tuples(TEXT, st.floats(0.001, 1e9)), max_size=40), st.integers(-3, 9))
def test_a_table_is_narrow_and_its_page_is_there(
    rows: list[tuple[str, float]], number: int
) -> None:
    items = [
        msgspec.structs.replace(ENTRY, rank=n + 1, participant=name, score_us=score, number=n)
        for n, (name, score) in enumerate(rows)
    ]
    page = tables.ranking_page("t", items, number)
    assert 0 <= page.number < page.count
    lines = page.card.body.split("\n")[1:-1]
    assert len(lines) <= ROWS + 1
    assert all(len(line) <= WIDTH_MAX for line in lines)


@given(st.lists(st.tuples(TEXT, st.floats(0.001, 1e9)), max_size=12), st.integers(2, 25))
def test_the_rankings_of_several_gpu_types_are_one_card(
    rows: list[tuple[str, float]], count: int
) -> None:
    each = tables.rows_of_each(count)
    items = [
        msgspec.structs.replace(ENTRY, rank=n + 1, participant=name, score_us=score, number=n)
        for n, (name, score) in enumerate(rows)
    ]
    page = tables.ranking_page("t", items[:each], 0)
    pages = {f"G{place}" * 13: page for place in range(count)}
    card = tables.combined_card("t", pages, each)
    assert len(card.body) <= BODY_MAX
    assert len(card.title) + len(card.body) + len(card.footer) <= 6000
    shown = [gpu for gpu in pages if gpu in card.body]
    assert card.body.count("```") == (2 * len(shown) if rows else 0)
    assert ("not shown: " in card.footer) == (len(shown) < count)


def test_the_greeting_names_commands_that_exist() -> None:
    named = re.findall(r"`/([a-z -]+)`", GREETING)
    assert len(named) == 3
    commands = [it for group in build_command_groups(()) for it in group.walk_commands()]
    assert set(named) <= {command.qualified_name for command in commands}


def test_a_list_of_leaderboards_on_many_gpu_types_is_a_card() -> None:
    gpus = [f"G_{place}" * 6 for place in range(25)]
    best = {(slug, gpu): 12.5 for slug in SLUGS for gpu in gpus}
    problems = [make_example(Problem, slug=slug, gpus=gpus) for slug in SLUGS]
    page = tables.leaderboards_page(problems, 1, "*" * 900, best)
    assert len(page.card.body) <= BODY_MAX
    assert len(build_embed(Card("t", "b" * 9000)).description or "") <= BODY_MAX


def test_pages_of_long_names_have_no_button_that_discord_refuses() -> None:
    page = tables.paginate("t", ["line"] * 30, 0)
    assert page_buttons("show", "s" * 95, "g" * 40, page) is None


HEARD = ("JobRequeued", "RunCompleted", "SubmissionCancelRequested", "queue", "progress", "odd")


@given(st.lists(st.sampled_from(HEARD)), TEXT)
def test_a_status_fits_a_message_for_any_events(kinds: list[str], text: str) -> None:
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
    assert [line[0] for line in status.finished_stages] == ["✅"]
    status = evolve(status, "RunCompleted", {"id": 9, "stages": [build, check]})
    assert [line[0] for line in status.finished_stages] == ["✅", "❌"]
    assert evolve(status, "progress", {"stages": "odd"}).finished_stages == status.finished_stages


@example("", "@everyone")
@given(TEXT, TEXT)
def test_a_refusal_mentions_nobody_and_has_its_id(reason: str, code: str) -> None:
    said = refusal_text(Refused(code[:30], f"@everyone {reason}"), "77")
    assert "@everyone" not in said
    assert said.endswith("`77`")
    assert len(said) <= 2000


@given(TEXT, st.lists(st.text(min_size=1, max_size=120), max_size=60))
def test_completions_keep_discords_limit(typed: str, names: list[str]) -> None:
    assert len(match_names(typed, names)) <= 25
    assert len(match_gpu_list(typed, names)) <= 25


@pytest.mark.parametrize(
    ("name", "size", "code"),
    [("k.txt", 1, "bad_file"), ("k.py", 0, "bad_file"), ("k.py", 1 << 30, "source_too_large")],
)
def test_an_invalid_attachment_is_not_read(name: str, size: int, code: str) -> None:
    with pytest.raises(Refused) as refused:
        check_attachment(name, size)
    assert refused.value.code == code


def test_the_help_fits_a_card_for_every_role() -> None:
    groups = build_command_groups(ROLES)
    commands = [
        command
        for group in groups
        for command in group.walk_commands()
        if isinstance(command, app_commands.Command)
    ]
    lines = [f"`/{it.qualified_name}` {escaped(it.description)}" for it in commands]
    assert len("\n".join(lines)) <= BODY_MAX
