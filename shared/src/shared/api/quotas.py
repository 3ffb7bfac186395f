"""What a participant may still submit: quotas, and submissions that are open at once."""

from typing import Annotated

from msgspec import Meta

from shared.api.fields import ApiModel, Seconds, Timestamp


class Balance(ApiModel, frozen=True, kw_only=True):
    """What is left of a quota.

    In a contest it is that of its current phase, until this ends; a team shares it.
    """

    bucket: Annotated[
        str,
        Meta(description="problem.gpu.category, or problem.phase.category; `*` is any."),
    ]
    limit: int
    used: int
    remaining: int
    window_s: Seconds
    reset_at: Timestamp
    contest: Annotated[str | None, Meta(description="The contest whose phase it is of.")] = None


class OpenSubmissions(ApiModel, frozen=True, kw_only=True):
    """How many of one's submissions are not over yet, and how many may be at once."""

    used: Annotated[int, Meta(ge=0)]
    limit: Annotated[int, Meta(ge=1)]


class Balances(ApiModel, frozen=True, kw_only=True):
    """What is left of one's quotas, and of the number of submissions that may be open at once."""

    items: list[Balance]
    open_submissions: OpenSubmissions
