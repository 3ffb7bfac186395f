"""Operators' commands for intake, pools, agents and projections."""

import click
from click import FloatRange, IntRange

from warpboard.terminal import options
from warpboard.terminal.deeds import Shape

GROUPS = {
    "intake": "Take submissions in, or not.",
    "pool": "Give out the jobs of a GPU type, or not; choose its canary.",
    "agent": "Hold an agent back, let it work, let its signature count.",
    "projection": "Go on without an event that cannot be folded.",
}

GPU = click.argument("gpu", metavar="GPU")
AGENT = click.argument("agent", metavar="AGENT")

SHAPES = (
    Shape(
        "admin intake pause",
        "admin/intake/pause",
        "Take no submission in; participants are told why.",
        '--reason "the disk is being changed"',
        (options.reason,),
    ),
    Shape(
        "admin intake resume",
        "admin/intake/resume",
        "Take submissions in again.",
        '--reason "the new disk is in"',
        (options.reason,),
    ),
    Shape(
        "admin pool pause",
        "admin/pools/{gpu}/pause",
        "Give out no job of a GPU type; those who wait are told why.",
        'H200 --reason "times drift"',
        (GPU, options.reason),
    ),
    Shape(
        "admin pool resume",
        "admin/pools/{gpu}/resume",
        "Give out jobs of a GPU type again.",
        'H200 --reason "times are as before"',
        (GPU, options.reason),
    ),
    Shape(
        "admin pool canary",
        "admin/pools/{gpu}/canary",
        "Run a passed submission again and again on every agent of a GPU type.",
        "H200 --submission 12 --every 3600 --ratio-max 1.1",
        (
            GPU,
            click.option("--submission", type=IntRange(min=1), required=True, help="Its number."),
            click.option(
                *("--every", "every_s"),
                type=FloatRange(10, 2_592_000),
                default=3600.0,
                show_default=True,
                metavar="SECONDS",
                help="How often.",
            ),
            click.option(
                "--ratio-max",
                type=FloatRange(1, 100, min_open=True),
                default=1.1,
                show_default=True,
                help="How many times its usual time is bad.",
            ),
        ),
        method="PUT",
    ),
    Shape(
        "admin pool no-canary",
        "admin/pools/{gpu}/canary",
        "Run no canary on a GPU type any more.",
        'H200 --reason "its problem is over"',
        (GPU, options.reason),
        method="DELETE",
    ),
    Shape(
        "admin agent cordon",
        "admin/agents/{agent}/cordon",
        "Give an agent canaries alone.",
        'local --reason "its times drift"',
        (AGENT, options.reason),
    ),
    Shape(
        "admin agent drain",
        "admin/agents/{agent}/drain",
        "Give an agent nothing more; the run in hand may end.",
        'local --reason "a new driver comes"',
        (AGENT, options.reason),
    ),
    Shape(
        "admin agent release",
        "admin/agents/{agent}/release",
        "End cordon, drain and quarantine of an agent.",
        'local --reason "the fan was replaced"',
        (AGENT, options.reason),
    ),
    Shape(
        "admin agent revoke",
        "admin/agents/{agent}/revoke",
        "Let an agent work and sign no more, for ever.",
        'local --reason "its key was copied"',
        (AGENT, options.reason),
    ),
    Shape(
        "admin agent enroll",
        "admin/agents/{agent}/enroll",
        "Let what an agent signs count; `python -m gpu_agent key` on its machine says the key.",
        'h200-3 --key MCowBQYDK2VwAyEA8f… --owner lab --reason "a new host"',
        (
            AGENT,
            click.option("--key", "sign_key", required=True, metavar="KEY", help="Base64."),
            click.option("--owner", required=True, metavar="NAME", help="Whose machine it is."),
            options.reason,
        ),
    ),
    Shape(
        "admin projection skip",
        "admin/projections/{name}/skip",
        "Let projection NAME go on without the event SEQ, now and in every replay.",
        'ranker 118 --reason "it was written by hand"',
        (
            click.argument("name"),
            click.argument("seq", type=IntRange(min=1)),
            options.reason,
        ),
    ),
)
