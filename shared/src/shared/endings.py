"""The endings of a submission without a verdict, and why each can only come after acceptance.

A submission that would certainly end this way is refused. Scheduler gives no other
code to a submission that it ends, whatever an agent reports.
"""

from typing import NamedTuple

from shared.states import STATES

UNKNOWN_FAILURE = "infra_failed"
# The submission itself may be the cause.
AGENTS_LOST = "agents_lost"


class Ending(NamedTuple):
    """How a submission ends without a verdict.

    `prevented` says what is refused before acceptance, and why the rest can only be found later.
    """

    writer: str
    cause: str
    prevented: str = "it happens after an agent was assigned"
    outcome: str = "infra_failed"


_NO_AGENT = (
    "ingest refuses a toolchain that no agent has (`toolchain_missing`) and a full queue "
    "(`queue_full`). It warns of a GPU type that nobody serves, and refuses it if the request says "
    "so (`no_agent`). An agent may also come or leave within the hour"
)
ENDINGS: dict[str, Ending] = {
    "cancelled": Ending(
        "scheduler",
        "its owner or an operator cancelled or withdrew it; a baseline also ends this way if its "
        "version was replaced or its problem archived",
        "the request to cancel comes later",
        "cancelled",
    ),
    STATES["queued"].overdue: Ending(
        "scheduler",
        "no agent took it before its deadline; a baseline ends as `cancelled` then",
        _NO_AGENT,
    ),
    STATES["assigned"].overdue: Ending(
        "scheduler", "its agents did not start the run in time, at each attempt"
    ),
    STATES["running"].overdue: Ending("scheduler", "its deadline passed during the run"),
    STATES["ranking"].overdue: Ending("scheduler", "ranker did not decide on its verdict in time"),
    AGENTS_LOST: Ending("scheduler", "its agent failed during the run, twice"),
    "agent_silent": Ending("scheduler", "its agent stopped responding, at the last attempt"),
    "agent_restarted": Ending("scheduler", "its agent was restarted, at the last attempt"),
    "agent_revoked": Ending("scheduler", "its agent was revoked, at each attempt"),
    "gang_broken": Ending("scheduler", "one of its several agents was lost, at each attempt"),
    "runner_failed": Ending(
        "scheduler",
        "the launcher could not start an agent for it",
        "ingest refuses a launcher that does not exist or does not serve the GPU type "
        "(`unknown_runner`); whether an agent starts is only known later",
    ),
    "supervisor": Ending("gpu-agent", "the harness failed"),
    "sandbox": Ending("gpu-agent", "the sandbox failed"),
    "device": Ending("gpu-agent", "the GPU failed"),
    "noisy": Ending("gpu-agent", "the machine was too busy to time it, at each attempt"),
    "memory": Ending("gpu-agent", "the machine had too little memory, at each attempt"),
    "profiler": Ending(
        "gpu-agent",
        "ncu could count nothing: its account may not, MIG divides the GPU, or its driver is unfit",
    ),
    "problem_fault": Ending(
        "gpu-agent",
        "the problem's own code failed",
        "a problem is checked before it is published; another input or machine may show a fault",
    ),
    "busy": Ending("gpu-agent", "the agent had another run, at each attempt"),
    "drained": Ending("gpu-agent", "the agent was stopped, at each attempt"),
    "quarantine": Ending("gpu-agent", "the agent had put itself in quarantine, at each attempt"),
    "platform": Ending("gpu-agent", "the agent could not run it, such as for a missing file"),
    "wrong_writer": Ending("ranker", "the verdict was not written by the agent of the run"),
    "agent_not_enrolled": Ending("ranker", "the agent of the run was not enrolled"),
    "bad_signature": Ending("ranker", "the verdict was not signed by the agent"),
    "bad_key": Ending("ranker", "the run did not use the key that it had committed to"),
    "unknown_harness": Ending("ranker", "the agent ran other code than it had registered"),
    "chunk_overdue": Ending("scheduler", "an agent did not end a chunk of an evaluation in time"),
    "bad_chunk": Ending("scheduler", "an agent reported other items of an evaluation than it had"),
    UNKNOWN_FAILURE: Ending("scheduler", "its agent reported a failure without a known code"),
}


def ending_code(reported: str) -> str:
    """Return the code of an ending for what was reported.

    >>> ending_code("agent_silent"), ending_code("anything else")
    ('agent_silent', 'infra_failed')
    """
    return reported if reported in ENDINGS else UNKNOWN_FAILURE
