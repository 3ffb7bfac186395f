"""What is run once beside the service: audit, replay, export, import; wired like the service."""

from ranker.commands.run import main

__all__ = ["main"]
