"""Every ending without a verdict is in the one table, which says why it comes after acceptance."""

import ast
from collections.abc import Iterator
from typing import Any

import pytest

from harness.vocabulary import FAILURE_CODES
from ranker.domain import conclusion
from scheduler.domain import agent_fold, launches, rules
from shared.api.submissions import FullSubmission
from shared.endings import AGENTS_LOST, ENDINGS
from shared.errors import STATUS_BY_CODE
from shared.presentation.failure import describe_failure
from shared.states import STATES
from tests.support.api_examples import make_example
from tests.support.platform import ROOT

# Calls whose code becomes that of a submission's end, and the place of the code.
CALLS = {
    "Fault": (0, "services/ranker/src/ranker/domain"),
    "_build_failure": (0, "services/gpu-agent/src/gpu_agent"),
    "fail_submission": (2, "services/scheduler/src/scheduler"),
    "give_up": (2, "services/scheduler/src/scheduler"),
}


def literal_codes(name: str) -> Iterator[str]:
    """Yield the codes that a function is called with as literals."""
    place, folder = CALLS[name]
    for path in sorted((ROOT / folder).rglob("*.py")):
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        for call in calls:
            arguments = (
                call.args[place : place + 1] if ast.unparse(call.func).endswith(name) else ()
            )
            yield from (str(it.value) for it in arguments if isinstance(it, ast.Constant))


@pytest.mark.parametrize("name", CALLS)
def test_every_code_in_the_services_is_in_the_table(name: str) -> None:
    assert set(literal_codes(name)) <= set(ENDINGS)


def test_the_codes_of_harness_agents_and_scheduler_are_in_the_table() -> None:
    overdue = {state.overdue for state in STATES.values()}
    agents = {*agent_fold.AGENT_LOSS_CODES, *agent_fold.REPEATED, *agent_fold.BLAMELESS_CODES}
    codes = {*FAILURE_CODES, *overdue, *agents, *rules.FINAL_FAILURES}
    assert codes | {launches.RUNNER_FAILED, conclusion.NOT_ENROLLED} <= set(ENDINGS)


def test_the_agent_and_ranker_write_literal_codes() -> None:
    assert {"busy", "drained", "platform", "quarantine"} == set(literal_codes("_build_failure"))
    assert {"bad_key", "bad_signature", "wrong_writer"} <= set(literal_codes("Fault"))


def test_what_ingest_refuses_instead_is_a_refusal_of_ingest() -> None:
    texts = " ".join(ending.prevented for ending in ENDINGS.values())
    refusals = set(texts.split("`")[1::2])
    assert {"no_agent", "queue_full", "toolchain_missing"} <= refusals
    assert refusals <= set(STATUS_BY_CODE)


def test_only_a_submission_that_lost_no_second_agent_is_to_be_submitted_again() -> None:
    steps = {}
    for code in ("agent_silent", AGENTS_LOST):
        lost: dict[str, Any] = {
            "outcome": "infra_failed",
            "verdict": None,
            "code": code,
            "cases": [],
        }
        failure = describe_failure(make_example(FullSubmission, **lost))
        assert failure is not None
        steps[code] = failure.next_step
    assert steps["agent_silent"] == "The platform failed, not your file: submit it again."
    assert steps[AGENTS_LOST].startswith("Look for what may stop a whole machine")
