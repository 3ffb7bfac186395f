"""The gateway: who is connected, what they are told, and what goes wrong with it."""

from discord_sim.gateway.gateway import Gateway

__all__ = ["Gateway"]
