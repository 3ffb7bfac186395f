"""Who says whether a bot keeps to Discord's rules: two documents, and what is told in prose."""

from dataclasses import dataclass

from discord_sim.judges.gateway import GatewaySchema
from discord_sim.judges.openapi import Document


@dataclass(frozen=True)
class Judges:
    """The documents that are there; the rules in prose always are."""

    document: Document | None = None
    gateway: GatewaySchema | None = None
