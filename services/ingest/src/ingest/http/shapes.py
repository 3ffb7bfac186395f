"""What ingest's own routes under /v1 answer; the OpenAPI document shows it."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from shared.answers import AtText, Digest, Number, Seconds, Seq

Event = Annotated[str | None, Field(description="The event that was written; null if it was so.")]


class Well(TypedDict):
    """That it is well."""

    status: Literal["ok"]


class Made(TypedDict):
    """A decision that is in the log."""

    event: Event
    seq: Seq | None


class Identity(TypedDict):
    """Where a participant is known too."""

    id: str
    provider: str
    subject: str
    linked_at: AtText | None


class Me(TypedDict):
    """Who one is here; on a machine where names are believed perhaps without an account yet."""

    participant_id: str | None
    name: str
    roles: list[str]
    scopes: list[str]
    problems: Annotated[list[str], Field(description="Those that the token is for; none is all.")]
    leaderboards: Annotated[list[str], Field(description="The closed ones one is a member of.")]
    token: Annotated[int | None, Field(description="The number of the token that asks.")]
    identities: list[Identity]
    ban: Annotated[str | None, Field(description="Until when, and why.")]


class Token(TypedDict):
    """A token without its text."""

    id: int
    name: str
    prefix: Annotated[str, Field(description="The beginning of its text, to know it by.")]
    kind: str
    scopes: list[str]
    problems: list[str]
    created_at: AtText
    last_used_at: AtText | None
    expires_at: AtText | None


class Tokens(TypedDict):
    """Tokens that are not revoked, oldest first."""

    items: list[Token]


class Issued(TypedDict):
    """A token that was just made, with its text, which is shown once."""

    id: int
    token: str
    prefix: str
    name: str
    scopes: list[str]
    problems: list[str]
    expires_at: AtText | None


class Revoked(Made):
    """A token that acts for nobody any more."""

    id: int
    state: Literal["revoked"]


class Opened(Made):
    """A participant who has an account."""

    participant_id: str
    name: str


class Named(TypedDict):
    """What a participant is called."""

    participant_id: str
    name: str


class Names(TypedDict):
    """What participants are called, and after whom the next page begins."""

    items: list[Named]
    next_after: str | None


class BanAppeal(TypedDict):
    """What somebody says against their ban, and what became of it."""

    text: str
    filed_at: AtText
    is_accepted: Annotated[bool | None, Field(description="Null while it waits for an answer.")]
    reason: str | None


class Participant(TypedDict):
    """What operators see of a participant."""

    participant_id: str
    name: str
    roles: list[str]
    leaderboards: list[str]
    ban: str | None
    ban_appeal: BanAppeal | None
    identities: list[Identity]
    tokens: list[Token]


class DeadLetter(TypedDict):
    """An event that a consumer gave up."""

    consumer: str
    stream: str
    seq: Seq
    reason: str
    at: AtText
    deliveries: Annotated[int, Field(description="How often it was handed over.")]
    place: Annotated[Seq, Field(description="What was handed over: the event, or its redrive.")]


class DeadLetters(TypedDict):
    """Dead letters, oldest first."""

    items: list[DeadLetter]


class Published(TypedDict):
    """A version of a problem that is there now."""

    slug: str
    number: Annotated[int, Field(description="The version.")]
    digest: Digest
    is_new: bool
    warnings: list[str]


class Requested(TypedDict):
    """A rejudge that goes on, and how many submissions it runs again."""

    id: str
    count: int
    from_version: int
    to_version: int


class BaselineRun(TypedDict):
    """A run of a baseline on a GPU type; `is_new` false if one was waiting already."""

    name: str
    gpu: str
    submission: str
    is_new: bool


class Baselines(TypedDict):
    """The runs of a problem's baselines that are under way now."""

    slug: str
    items: list[BaselineRun]


class Balance(TypedDict):
    """What is left of a quota."""

    bucket: Annotated[str, Field(description="problem.gpu.mode; `*` is any.")]
    limit: int
    used: int
    remaining: int
    window_s: Seconds
    reset_at: AtText


class Balances(TypedDict):
    """What is left of one's quotas."""

    items: list[Balance]


class Links(TypedDict):
    """Where a submission is, what happens to it, and how to end it."""

    self: str
    events: str
    cancel: str


class Span(TypedDict):
    """How long something takes, half of the time and nine times in ten."""

    p50: Seconds | None
    p90: Seconds | None


class InFront(TypedDict):
    """What was in front of a request when it came, up to a second before."""

    gpu: str
    state: str
    waiting: Annotated[
        int,
        Field(description="How many submissions wait for the GPU type; participants take turns."),
    ]
    wait_s: Span | None
    run_s: Span | None
    agents_online: int
    agents_busy: int
    reason: Annotated[str | None, Field(description="Why it has to wait for an agent, if so.")]
    as_of: AtText | None


class Receipt(TypedDict):
    """A submission that is in the log; it has ended by `deadline_at`."""

    number: Number
    id: str
    gpu: str
    state: Literal["received"]
    deadline_at: AtText
    queue: Annotated[InFront | None, Field(description="Null if nobody could say.")]
    quota: Balance | None
    links: Links


class Received(TypedDict):
    """What was taken in: one submission for each GPU type."""

    submissions: list[Receipt]
    problem_version: int
    replayed: Annotated[bool, Field(description="Whether this was answered before.")]


class Intake(TypedDict):
    """Why no submission is taken in now; null if they are."""

    paused: str | None


class Cancelling(Made):
    """A submission that will end without a verdict."""

    number: Number
    state: Literal["cancelling"]


class Withdrawn(Made):
    """A submission that is off its leaderboard for ever."""

    number: Number
    state: Literal["withdrawn"]


class Noted(TypedDict):
    """What its owner says of a submission now."""

    number: Number
    note: str | None
    tag: str | None
