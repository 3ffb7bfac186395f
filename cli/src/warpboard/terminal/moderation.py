"""Operators' commands for submissions and participants."""

import click
from click import FloatRange, IntRange

from warpboard.terminal import options
from warpboard.terminal.deeds import Shape
from warpboard.terminal.options import Instant

UNLIMITED = "none"


class Limit(click.ParamType[int | None]):
    """How much of a quota there is: a number, or `none`, which lifts the limit."""

    name = "limit"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        """The number, None for no limit."""
        if value == UNLIMITED:
            return None
        if not value.isdecimal():
            self.fail(f"{value!r}: expected a number, or {UNLIMITED} for no limit", param, ctx)
        return int(value)


class Decision(click.ParamType[bool]):
    """Whether an appeal is accepted."""

    name = "decision"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """The claim that the request makes."""
        if value not in ("accept", "reject"):
            self.fail(f"{value!r}: expected accept or reject", param, ctx)
        return value == "accept"


NAME = click.argument("name", metavar="PARTICIPANT")
RULE = click.option("--rule", required=True, metavar="TEXT", help="Which rule it breaks.")

SHAPES = (
    Shape(
        "admin cancel",
        "submissions/{number}/cancel",
        "Let anybody's submission NUMBER end without a verdict; its quota comes back.",
        '12 --reason "its owner asked us to"',
        (options.number, options.reason),
    ),
    Shape(
        "admin hold",
        "admin/submissions/{number}/hold",
        "Keep submission NUMBER off its leaderboard until somebody looked.",
        '12 --rule "no caching" --reason "it keeps its output"',
        (options.number, RULE, options.reason),
    ),
    Shape(
        "admin release",
        "admin/submissions/{number}/release",
        "Let a held submission be ranked.",
        '12 --reason "it keeps no output"',
        (options.number, options.reason),
    ),
    Shape(
        "admin disqualify",
        "admin/submissions/{number}/disqualify",
        "Take submission NUMBER off its leaderboard; the next best stands.",
        '12 --rule "no caching" --reason "it keeps its output"',
        (options.number, RULE, options.reason),
    ),
    Shape(
        "admin restore",
        "admin/submissions/{number}/restore",
        "Let a disqualified submission be ranked again.",
        '12 --reason "the rule came later"',
        (options.number, options.reason),
    ),
    Shape(
        "admin duel",
        "admin/duels",
        "Time submissions FIRST and SECOND of one leaderboard in alternation.\n\n"
        "The faster one stands first where they are tied. It costs nobody's quota.",
        '47 12 --reason "they look alike"',
        (
            click.argument("first", type=IntRange(min=1)),
            click.argument("second", type=IntRange(min=1)),
            click.option("--gpu", type=options.GPU, help="Refuse others than of this GPU type."),
            options.reason,
        ),
    ),
    Shape(
        "admin decide-appeal",
        "admin/submissions/{number}/decide-appeal",
        "Answer the appeal of submission NUMBER; an accepted one lifts what it is against.",
        '12 accept --reason "line 4 shows it"',
        (
            options.number,
            click.argument("is_accepted", metavar="accept|reject", type=Decision()),
            options.reason,
        ),
    ),
    Shape(
        "admin ban",
        "admin/participants/{name}/ban",
        "Keep a participant out, and off every leaderboard.",
        'mallory --until 2027-01-01T00:00:00Z --reason "shared accounts"',
        (
            NAME,
            click.option("--until", "until_at", type=Instant(), help="For ever if not given."),
            options.reason,
        ),
    ),
    Shape(
        "admin unban",
        "admin/participants/{name}/unban",
        "Let a participant in again.",
        'mallory --reason "it was somebody else"',
        (NAME, options.reason),
    ),
    Shape(
        "admin quota",
        "admin/quota",
        "Limit what a participant, or everybody, may take of BUCKET in a window of time.\n\n"
        "BUCKET is PROBLEM.GPU.CATEGORY, each part may be *; CATEGORY is test or ranked.",
        '"matmul.*.ranked" --limit 10 --window 86400 --reason "the queue is long"',
        (
            click.argument("bucket"),
            click.option(
                "--limit", type=Limit(), required=True, metavar="N|none", help="How many."
            ),
            click.option(
                *("--window", "window_s"),
                type=FloatRange(1, 31_622_400),
                default=86_400.0,
                show_default=True,
                metavar="SECONDS",
                help="Of which time.",
            ),
            click.option("--participant", metavar="NAME", help="Everybody if not given."),
            options.reason,
        ),
        method="PUT",
    ),
)
