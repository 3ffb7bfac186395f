"""The platform on one machine, as child processes: up, down, and how it goes."""

from warpboard.processes.platform import Platform
from warpboard.processes.services import Place, Service, local_services, with_discord
from warpboard.processes.state import Row, describe, down
from warpboard.processes.supervision import supervise

__all__ = [
    "Place",
    "Platform",
    "Row",
    "Service",
    "describe",
    "down",
    "local_services",
    "supervise",
    "with_discord",
]
