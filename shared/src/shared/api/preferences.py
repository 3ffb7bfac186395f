"""Notification preferences and consents."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, Digest

How = Literal["off", "thread", "dm"]
Switch = Literal["on", "off"]
Threads = Literal["default", "per_submission", "per_problem"]
Notice = Literal["overtaken", "run_finished", "deadline_near"]


class Preferences(ApiModel, frozen=True, kw_only=True):
    """How a participant is notified on Discord."""

    overtaken: How
    run_finished: How
    deadline_near: How
    ranked_line: Switch
    threads: Threads


class DiscordParticipant(ApiModel, frozen=True, kw_only=True):
    """A participant with their Discord id, null without one."""

    participant_id: str
    discord: str | None
    preferences: Preferences


class DiscordParticipants(ApiModel, frozen=True, kw_only=True):
    """Participants who want a notification."""

    items: list[DiscordParticipant]


class SubmissionOwner(DiscordParticipant, frozen=True, kw_only=True):
    """The owner of a submission, and what it was submitted for."""

    number: int
    problem: str
    gpu: str
    mode: str
    baseline: str


class Consent(ApiModel, frozen=True, kw_only=True):
    """The text to accept, and whether it is accepted."""

    problem: str
    problem_version: int
    is_asked: Annotated[bool, Meta(description="Whether a consent is required.")]
    is_given: Annotated[bool, Meta(description="Whether the current text is accepted.")]
    file: Annotated[str, Meta(description="The file of the problem; empty if none.")]
    digest: Digest | None
    text: str
