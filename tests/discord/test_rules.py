"""By what a leaderboard judges: which harness code its agents have, and where that lies."""

from discord_edge.problems.commands import (
    calling_convention,
    choose_language,
    rules_card,
    select_harnesses,
)
from discord_edge.wording import Attachment, Card, fit_attachments
from shared.api.agents import Harness, Harnesses, HarnessUser
from shared.api.problems import FullProblem, ProblemCase, Rules
from tests.support.api_examples import make_example

NEW, OLD, OTHER = ("a" * 64, "b" * 64, "c" * 64)
CASES = {
    "tests": [make_example(ProblemCase)],
    "benchmarks": [make_example(ProblemCase), make_example(ProblemCase)],
}
RULES = make_example(
    Rules,
    cases=CASES,
    budgets_s={"test": 60},
    tolerances="as the check says",
    formula="the geometric mean",
    ties="share a rank",
    source_policy="after the deadline",
)
PROBLEM = make_example(FullProblem, slug="sort", form="task", gpus=["CPU", "H200"], rules=RULES)


def known_harnesses(**gpus: tuple[str, ...]) -> Harnesses:
    """The harness codes of agents, by the first digit of their digests."""
    items = [
        make_example(
            Harness,
            digest=digit * 64,
            version="2",
            agents=[make_example(HarnessUser, id=f"of-{gpu}", gpu=gpu) for gpu in names],
            name=f"h-{digit}.zip",
            url=f"/v1/harnesses/{digit * 64}",
        )
        for digit, names in gpus.items()
    ]
    return make_example(Harnesses, items=items)


def public_link(path: str) -> str:
    """Return the public address of a path."""
    return f"https://w.example{path}"


def test_each_gpu_type_is_shown_with_its_harness_code() -> None:
    harnesses = known_harnesses(a=("H200", "L4"), c=("B200",), b=("CPU",))
    known = select_harnesses(harnesses, PROBLEM.gpus)
    assert [code.digest for code in known] == [NEW, OLD]
    body = rules_card(PROBLEM, "python", known, public_link).body
    assert f"**harness on H200** version 2, `{NEW}`" in body
    assert f"**harness on CPU** version 2, `{OLD}`" in body
    assert OTHER not in body


def test_without_a_registered_code_none_is_shown() -> None:
    known = select_harnesses(known_harnesses(a=("L4",), b=()), ["CPU"])
    card = rules_card(PROBLEM, "python", known, public_link)
    assert "no agent that could run it has registered its code" in card.body


def test_each_harness_code_is_linked_or_named_by_its_path() -> None:
    known = select_harnesses(known_harnesses(a=("CPU",)), ["CPU"])
    linked = rules_card(PROBLEM, "python", known, public_link).body
    assert f"([download](https://w.example/v1/harnesses/{NEW}))" in linked
    unlinked = rules_card(PROBLEM, "python", known, lambda _: "").body
    assert f"(`/v1/harnesses/{NEW}` of the platform's API)" in unlinked


def test_a_file_that_is_too_large_is_linked_or_its_place_is_named() -> None:
    for link, said in (("https://w.example/v1", "](https://w.example/v1)"), ("", "ask the API")):
        files = (Attachment("h.zip", b"12345", 5, link),)
        card = Card("rules", "how it is judged", files=files, hint="ask the API")
        fitted = fit_attachments(card, 4)
        assert said in fitted.body
        assert fitted.files == ()


def test_a_language_is_chosen_and_called_as_the_problem_has_it() -> None:
    cuda = make_example(FullProblem, slug="sort", languages=["cuda"], form="native")
    assert choose_language(cuda, None) == "cuda"
    assert choose_language(PROBLEM, None) == "python"
    assert calling_convention(PROBLEM, "python") == (
        "custom_kernel(data) in a .py file, by the harness"
    )
    assert "compiled with the problem's own headers" in calling_convention(cuda, "cuda")
