"""Every ending without a verdict is in the one table, which says why it comes after acceptance."""

import ast
from collections.abc import Iterator

import pytest

from harness.vocabulary import FAILURE_CODES
from ranker.domain import conclusion
from scheduler.domain import agent_fold, launches, rules
from shared.endings import ENDINGS
from shared.errors import STATUS_BY_CODE
from shared.states import STATES
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
    codes = {*FAILURE_CODES, *overdue, *agents, *rules.FINAL_FAILURES, rules.AGENTS_LOST}
    assert codes | {launches.RUNNER_FAILED, conclusion.NOT_ENROLLED} <= set(ENDINGS)


def test_the_agent_and_ranker_write_literal_codes() -> None:
    assert {"busy", "drained", "platform", "quarantine"} == set(literal_codes("_build_failure"))
    assert {"bad_key", "bad_signature", "wrong_writer"} <= set(literal_codes("Fault"))


def test_what_ingest_refuses_instead_is_a_refusal_of_ingest() -> None:
    texts = " ".join(ending.prevented for ending in ENDINGS.values())
    refusals = set(texts.split("`")[1::2])
    assert {"no_agent", "queue_full", "toolchain_missing"} <= refusals
    assert refusals <= set(STATUS_BY_CODE)
