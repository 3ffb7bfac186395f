"""Operators' commands for intake, pools and projections."""

import click
from click import FloatRange, IntRange

from warpboard.terminal import options
from warpboard.terminal.deeds import Shape

GROUPS = {
    "intake": "Take submissions in, or not.",
    "accounts": "Begin anew with names after their tables were lost.",
    "pool": "Give out the jobs of a GPU type, or not; choose its canary.",
    "projection": "Go on without an event that cannot be folded.",
}

GPU = click.argument("gpu", metavar="GPU")

SHAPES = (
    Shape(
        "admin accounts adopt",
        "admin/accounts/adopt",
        "Let names be given anew: the tables of accounts were lost, and there is no backup.",
        '--reason "the disk of Postgres died"',
        (options.reason,),
    ),
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
