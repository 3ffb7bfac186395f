"""What is answered of what people decided, of rejudges, of operators' acts and of seals."""

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ranker.http.shapes.cases import Verdict
from ranker.http.shapes.submissions import Code, Outcome
from shared.answers import At, Digest, Number, Seq, Us


class Decision(TypedDict):
    """What was decided about a submission, or waits to be."""

    number: Number
    id: str
    participant: str | None
    problem: str
    problem_number: int
    gpu: str
    outcome: Outcome | None
    code: Code | None
    end_reason: str | None
    is_held_by_rule: bool
    is_held: bool
    is_disqualified: bool
    rule: str | None
    reason: str | None
    actor: str | None
    decided_at: At | None
    evidence: str | None
    appeal: Literal["filed", "accepted", "rejected"] | None
    appeal_text: str | None
    appeal_reason: str | None
    appealed_at: At | None
    is_withdrawn: bool
    withdrawn_at: At | None


class Moderation(TypedDict):
    """Decisions, newest first."""

    items: list[Decision]
    as_of: Seq


class Rejudge(TypedDict):
    """Submissions that run again under another version of their problem."""

    id: str
    problem: str
    from_number: int
    to_number: int
    select: Literal["best", "all"]
    reason: str
    actor: str
    count: int
    state: Literal["running", "previewed", "applied", "discarded"]
    changed_count: int | None
    diff: Annotated[str | None, Field(description="The digest of the preview.")]
    requested_at: At
    previewed_at: At | None
    ended_at: At | None
    end_reason: str | None
    end_actor: str | None
    judged: int


class Rejudges(TypedDict):
    """Rejudges, newest first."""

    items: list[Rejudge]
    as_of: Seq


class ItemSide(TypedDict):
    """A submission's result before or after."""

    verdict: Verdict | None
    is_eligible: bool | None
    code: Code | None
    reason: str | None
    score_us: Us | None
    rank: int | None


class Item(TypedDict):
    """What a rejudge changes of a submission."""

    submission: str
    number: Number
    account: str
    gpu: str
    old: ItemSide
    new: ItemSide
    changed: bool


class Move(TypedDict):
    """Who moves on which leaderboard."""

    gpu: str
    account: str
    old_rank: int | None
    new_rank: int | None


class Preview(TypedDict):
    """What a rejudge would change, or changed."""

    items: list[Item]
    moves: list[Move]
    changed_count: int


class RejudgeWhole(Rejudge):
    """A rejudge with its preview, once there is one."""

    preview: Preview | None
    as_of: Seq


class Act(TypedDict):
    """What somebody did to the platform; `data` is its event without what is long or secret."""

    seq: Seq
    at: At
    actor: str
    type: str
    about: Annotated[str, Field(description="The aggregate, such as `pool.H100`.")]
    reason: str | None
    data: dict[str, Any]


class Acts(TypedDict):
    """Acts, newest first; a page may hold few, or none, and be followed by more."""

    items: list[Act]
    next_before: int | None


class Key(TypedDict):
    """What signatures of seals are checked with."""

    algorithm: Literal["ed25519"]
    key: Annotated[str, Field(description="Base64.")]


class Seal(TypedDict):
    """Where the chain stood, signed; `data` is what is signed, with the sequence before it."""

    seq: Seq
    at: At
    sealed_seq: Seq
    chain: Digest
    sig: str | None
    data: str


class Seals(TypedDict):
    """Seals, newest first."""

    items: list[Seal]
    key: str | None
