"""Commands that only send one request: what it is, and the arguments of an example."""

from typing import NamedTuple

import click
from click import Choice, FloatRange, IntRange

from shared.contests.definition import REVIEW_ITEMS
from warpboard.terminal.commands import COMMANDS
from warpboard.terminal.options import (
    GPU,
    ID,
    NUMBER,
    OPERATOR,
    ORGANISER,
    PLATFORM,
    REASON,
    SLUG,
    Decorator,
    Instant,
    action_command,
)

UNLIMITED = "none"
ROLES = ("creator", "moderator", "admin")
PROVIDERS = ("discord", "github", "web")


class Limit(click.ParamType[int | None]):
    """The limit of a quota: a number, or `none` for no limit."""

    name = "limit"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        """Return the number, None for no limit."""
        if value == UNLIMITED:
            return None
        if not value.isdecimal():
            self.fail(f"{value!r}: expected a number, or {UNLIMITED} for no limit", param, ctx)
        return int(value)


class AppealDecision(click.ParamType[bool]):
    """The decision on an appeal."""

    name = "decision"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return whether the appeal is accepted."""
        if value not in ("accept", "reject"):
            self.fail(f"{value!r}: expected accept or reject", param, ctx)
        return value == "accept"


class CheckDecision(click.ParamType[bool]):
    """The decision on an item of a check list."""

    name = "decision"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return whether it passes."""
        if value not in ("pass", "fail"):
            self.fail(f"{value!r}: expected pass or fail", param, ctx)
        return value == "pass"


class Action(NamedTuple):
    """A request, the arguments of an example, its parameters, and what the help adds.

    Parameters that the path of the request does not name make its body.
    """

    route: str
    example: str
    parameters: tuple[Decorator, ...]
    details: str = ""
    access: tuple[Decorator, ...] = OPERATOR


def build_action(words: str) -> click.Command:
    """Make the command of these words; its summary is in the table of all commands."""
    action = ACTIONS[words]
    summary = COMMANDS[words][1]
    help_text = f"{summary}\n\n{action.details}" if action.details else summary
    example = f"{words} {action.example}"
    return action_command(action.route, help_text, example, action.parameters, action.access)


AGENT = click.argument("agent", metavar="AGENT")
POOL = click.argument("gpu", metavar="GPU")
CONSUMER = click.argument("consumer")
SEQ = click.argument("seq", type=IntRange(min=1))
NAME = click.argument("name", metavar="PARTICIPANT")
RULE = click.option("--rule", required=True, metavar="TEXT", help="The rule that it breaks.")
DECISION = click.argument("is_accepted", metavar="accept|reject", type=AppealDecision())
ROLE = click.argument("role", type=Choice(ROLES))
TEXT = click.argument("text")
RECORDED_REASON = click.option(
    "--reason", default="", metavar="TEXT", help="The reason, for the record."
)
UNTIL = click.option("--until", "until_at", type=Instant(), help="Default: without end.")
CANARY_OPTIONS = (
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
        help="The ratio to its usual time from which on a run is bad.",
    ),
)
QUOTA_OPTIONS = (
    click.option("--limit", type=Limit(), required=True, metavar="N|none", help="How many."),
    click.option(
        *("--window", "window_s"),
        type=FloatRange(1, 31_622_400),
        metavar="SECONDS",
        help="The length of the window; default: a day.",
    ),
    click.option("--participant", metavar="NAME", help="Default: everybody."),
    click.option("--role", type=Choice(ROLES), help="Each participant with this role."),
    click.option("--contest", type=SLUG, help="The contest of a --team."),
    click.option("--team", metavar="NAME|ID", help="A team, or somebody who competes alone."),
)

CONTEST = click.argument("contest", metavar="CONTEST")
MEMBER = click.argument("participant", metavar="PARTICIPANT")
CONTESTANT = click.argument("contestant", metavar="CONTESTANT")
FOR_ORGANISERS = "For organisers and moderators (--operator). CONTESTANT is a name or an id."


ACTIONS = {
    "contest withdraw": Action(
        "DELETE contests/{contest}/registration",
        "winter-cup",
        (CONTEST,),
        "You also leave your team.",
        PLATFORM,
    ),
    "contest team join": Action(
        "POST contests/{contest}/team/join",
        "winter-cup k7ezqv4tz5m2w6nd3xhy2q4gpa",
        (CONTEST, click.argument("code")),
        access=PLATFORM,
    ),
    "contest team captain": Action(
        "PUT contests/{contest}/team/captain", "winter-cup ben", (CONTEST, MEMBER), access=PLATFORM
    ),
    "contest question": Action(
        "POST contests/{contest}/contestants/question",
        'winter-cup ada --reason "which model was it?"',
        (CONTEST, CONTESTANT, REASON),
        FOR_ORGANISERS,
        ORGANISER,
    ),
    "contest accept": Action(
        "POST contests/{contest}/contestants/accept",
        'winter-cup ada --reason "they showed the log"',
        (CONTEST, CONTESTANT, REASON),
        FOR_ORGANISERS,
        ORGANISER,
    ),
    "contest disqualify": Action(
        "POST contests/{contest}/contestants/disqualify",
        'winter-cup ada --reason "two accounts"',
        (CONTEST, CONTESTANT, REASON),
        FOR_ORGANISERS,
        ORGANISER,
    ),
    "contest restore": Action(
        "POST contests/{contest}/contestants/restore",
        'winter-cup ada --reason "it was an error"',
        (CONTEST, CONTESTANT, REASON),
        FOR_ORGANISERS,
        ORGANISER,
    ),
    "contest finalists": Action(
        "POST contests/{contest}/finalists",
        "winter-cup",
        (
            CONTEST,
            click.argument("contestants", metavar="[CONTESTANT]...", nargs=-1),
            RECORDED_REASON,
        ),
        "Without a CONTESTANT, these are the first of each division by the qualifier. A second call"
        " replaces the list. For organisers (--operator).",
        ORGANISER,
    ),
    "contest review": Action(
        "POST contests/{contest}/reviews",
        'winter-cup ada code pass --note "it reads no clock"',
        (
            CONTEST,
            CONTESTANT,
            click.argument("item", metavar="ITEM", type=Choice(REVIEW_ITEMS)),
            click.argument("is_passed", metavar="pass|fail", type=CheckDecision()),
            click.option(
                "--note", default="", metavar="TEXT", help="What you found; organisers read it."
            ),
        ),
        f"ITEM is one of {', '.join(REVIEW_ITEMS)}. `contest results` shows what the platform"
        " knows of each. For organisers and moderators (--operator).",
        ORGANISER,
    ),
    "contest confirm": Action(
        "POST contests/{contest}/results/confirm",
        "winter-cup",
        (CONTEST,),
        "Each check of the winners has passed, the time for appeals is over, and the standing still"
        " gives the same places. For organisers (--operator).",
        ORGANISER,
    ),
    "submission cancel": Action(
        "POST submissions/{number}/cancel",
        '12 --reason "the wrong file"',
        (NUMBER, RECORDED_REASON),
        access=PLATFORM,
    ),
    "evaluation cancel": Action(
        "POST evaluations/{id_}/cancel",
        '01a1fe70-a804-7827-b3a0-39e1f99403c8 --reason "enough"',
        (click.argument("id_", metavar="BATCH"), RECORDED_REASON),
        access=PLATFORM,
    ),
    "submission appeal": Action(
        "POST submissions/{number}/appeal",
        '12 "it reads the input once; line 4 shows where"',
        (NUMBER, TEXT),
        "`auth appeal` appeals your ban.",
        PLATFORM,
    ),
    "auth token revoke": Action("DELETE tokens/{number}", "31", (NUMBER,), access=PLATFORM),
    "auth appeal": Action(
        "POST me/appeal", '"the other account is my brother\'s"', (TEXT,), access=PLATFORM
    ),
    "webhook delete": Action(
        "DELETE webhooks/{id_}", "01a1fe70-a804-7827-b3a0-39e1f99403c8", (ID,), access=PLATFORM
    ),
    "problem rejudge apply": Action(
        "POST admin/rejudges/{id_}/apply", '01HZX3 --reason "the preview is as meant"', (ID, REASON)
    ),
    "problem rejudge discard": Action(
        "POST admin/rejudges/{id_}/discard", '01HZX3 --reason "version 2 was wrong"', (ID, REASON)
    ),
    "agent cordon": Action(
        "POST admin/agents/{agent}/cordon", 'local --reason "its times drift"', (AGENT, REASON)
    ),
    "agent drain": Action(
        "POST admin/agents/{agent}/drain", 'local --reason "a new driver comes"', (AGENT, REASON)
    ),
    "agent quarantine": Action(
        "POST admin/agents/{agent}/quarantine",
        'local --reason "its results are in doubt"',
        (AGENT, REASON),
        "`agent release` ends it.",
    ),
    "agent release": Action(
        "POST admin/agents/{agent}/release",
        'local --reason "the fan was replaced"',
        (AGENT, REASON),
    ),
    "admin pool pause": Action(
        "POST admin/pools/{gpu}/pause",
        'H200 --reason "times drift"',
        (POOL, REASON),
        "Waiting participants are told why.",
    ),
    "admin pool resume": Action(
        "POST admin/pools/{gpu}/resume", 'H200 --reason "times are as before"', (POOL, REASON)
    ),
    "admin pool canary": Action(
        "PUT admin/pools/{gpu}/canary",
        "H200 --submission 12 --every 3600 --ratio-max 1.1",
        (POOL, *CANARY_OPTIONS),
        "The agents are those of a GPU type.",
    ),
    "admin pool no-canary": Action(
        "DELETE admin/pools/{gpu}/canary", 'H200 --reason "its problem is over"', (POOL, REASON)
    ),
    "admin intake pause": Action(
        "POST admin/intake/pause", '--reason "the disk is being changed"', (REASON,)
    ),
    "admin intake resume": Action(
        "POST admin/intake/resume", '--reason "the new disk is in"', (REASON,)
    ),
    "admin projection skip": Action(
        "POST admin/projections/{name}/skip",
        'ranker 118 --reason "it was written by hand"',
        (click.argument("name"), SEQ, REASON),
        "It skips it now and in every replay.",
    ),
    "admin deadletter redrive": Action(
        "POST admin/deadletters/{consumer}/{seq}/redrive",
        'ranker-announce 118 --reason "the URL is back"',
        (CONSUMER, SEQ, REASON),
    ),
    "admin account adopt": Action(
        "POST admin/accounts/adopt",
        '--reason "the disk of Postgres died"',
        (REASON,),
        "It is for account tables that were lost, and of which there is no backup.",
    ),
    "problem hold": Action(
        "POST admin/submissions/{number}/hold",
        '12 --rule "no caching" --reason "it keeps its output"',
        (NUMBER, RULE, REASON),
        "Its participant is told the rule and the reason, and may appeal to a moderator.",
        PLATFORM,
    ),
    "problem release": Action(
        "POST admin/submissions/{number}/release",
        '12 --reason "it keeps no output"',
        (NUMBER, REASON),
        "You cannot release your own submissions, nor those that a moderator holds.",
        PLATFORM,
    ),
    "admin submission hold": Action(
        "POST admin/submissions/{number}/hold",
        '12 --rule "no caching" --reason "it keeps its output"',
        (NUMBER, RULE, REASON),
    ),
    "admin submission release": Action(
        "POST admin/submissions/{number}/release",
        '12 --reason "it keeps no output"',
        (NUMBER, REASON),
    ),
    "admin submission disqualify": Action(
        "POST admin/submissions/{number}/disqualify",
        '12 --rule "no caching" --reason "it keeps its output"',
        (NUMBER, RULE, REASON),
        "The participant's next best entry counts.",
    ),
    "admin submission restore": Action(
        "POST admin/submissions/{number}/restore",
        '12 --reason "the rule came later"',
        (NUMBER, REASON),
    ),
    "admin submission cancel": Action(
        "POST submissions/{number}/cancel", '12 --reason "its owner asked us to"', (NUMBER, REASON)
    ),
    "admin submission retry": Action(
        "POST admin/submissions/{number}/retry",
        '12 --reason "its agent lost power"',
        (NUMBER, REASON),
        "Its new number is that of the event. It takes no quota. A submission that is still open "
        "is cancelled.",
    ),
    "admin submission duel": Action(
        "POST admin/duels",
        '47 12 --reason "they look alike"',
        (
            click.argument("first", type=IntRange(min=1)),
            click.argument("second", type=IntRange(min=1)),
            click.option("--gpu", type=GPU, help="Refuse submissions of other GPU types."),
            REASON,
        ),
        "If they are tied, the faster one ranks first. It costs nobody's quota.",
    ),
    "admin submission decide-appeal": Action(
        "POST admin/submissions/{number}/decide-appeal",
        '12 accept --reason "line 4 shows it"',
        (NUMBER, DECISION, REASON),
    ),
    "admin quota set": Action(
        "PUT admin/quota",
        '"matmul.*.ranked" --limit 10 --window 86400 --reason "a long queue"',
        (click.argument("bucket"), *QUOTA_OPTIONS, REASON),
        "The limit is a number of submissions per window. "
        "BUCKET is PROBLEM.GPU.CATEGORY; each part may be *. CATEGORY is test or ranked. "
        "A participant's own limits override those of their roles, which override everybody's. "
        "With --contest and --team, BUCKET is PROBLEM.PHASE.CATEGORY, and the limit holds over a "
        "whole phase instead of its own.",
    ),
    "admin participant create": Action(
        "POST admin/participants", 'ada --reason "she asked for an account"', (NAME, REASON)
    ),
    "admin participant rename": Action(
        "PUT admin/participants/{participant}/name",
        'ada lovelace --reason "she asked for it"',
        (
            click.argument("participant", metavar="PARTICIPANT"),
            click.argument("name", metavar="NAME"),
            REASON,
        ),
        "PARTICIPANT may be an account whose name was lost.",
    ),
    "auth unmerge": Action(
        "DELETE me/merges/{name}",
        "lovelace",
        (NAME,),
        "It is possible for seven days after the merge.",
        access=PLATFORM,
    ),
    "admin participant merge": Action(
        "POST admin/participants/{name}/merge",
        'lovelace --into ada --reason "she asked us to"',
        (
            NAME,
            click.option("--into", required=True, metavar="NAME", help="The account that remains."),
            REASON,
        ),
        "It can be undone for seven days. A ban of either account holds for both.",
    ),
    "admin participant unmerge": Action(
        "DELETE admin/participants/{name}/merge",
        'lovelace --reason "they are two persons"',
        (NAME, REASON),
        "It is possible for seven days after the merge.",
    ),
    "admin participant ban": Action(
        "POST admin/participants/{name}/ban",
        'mallory --until 2027-01-01T00:00:00Z --reason "shared accounts"',
        (NAME, UNTIL, REASON),
    ),
    "admin participant unban": Action(
        "POST admin/participants/{name}/unban",
        'mallory --reason "it was somebody else"',
        (NAME, REASON),
    ),
    "admin participant decide-appeal": Action(
        "POST admin/participants/{name}/decide-appeal",
        'ada accept --reason "it was her brother"',
        (NAME, DECISION, REASON),
    ),
    "admin role grant": Action(
        "POST admin/participants/{name}/roles",
        'ada creator --reason "she writes problems"',
        (NAME, ROLE, REASON),
        "A creator publishes problems; a moderator and an admin operate.",
    ),
    "admin role revoke": Action(
        "DELETE admin/participants/{name}/roles/{role}",
        'ada creator --reason "the contest is over"',
        (NAME, ROLE, REASON),
    ),
    "admin token revoke": Action(
        "DELETE admin/tokens/{number}", '31 --reason "it was in a public file"', (NUMBER, REASON)
    ),
    "admin identity link": Action(
        "POST admin/participants/{name}/identities",
        'ada github 583231 --reason "she showed her passport"',
        (
            NAME,
            click.argument("provider", type=Choice(PROVIDERS)),
            click.argument("subject"),
            REASON,
        ),
    ),
    "admin identity unlink": Action(
        "DELETE admin/participants/{name}/identities/{identity}",
        'ada 01HZX3 --reason "it was sold"',
        (NAME, click.argument("identity"), REASON),
        "`admin participant show` lists them.",
    ),
    "admin leaderboard archive": Action(
        "POST admin/leaderboards/{slug}/archive",
        'matmul --reason "the contest is over"',
        (click.argument("slug", type=SLUG, metavar="PROBLEM"), REASON),
        "They accept nothing any more and stay readable.",
    ),
    "admin invite revoke": Action(
        "DELETE admin/invites/{code}",
        '3p8uCz0wq1mVYk2nqkq1Jw --reason "it was posted"',
        (click.argument("code"), REASON),
    ),
}
