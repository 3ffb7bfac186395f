"""The platform on one machine, as child processes: start, stop and status."""

from warpboard.processes.platform import Platform, supervise
from warpboard.processes.services import PlatformConfig, Service, local_services, with_discord
from warpboard.processes.state import describe, down
from warpboard.service.machine import Row

__all__ = [
    "Platform",
    "PlatformConfig",
    "Row",
    "Service",
    "describe",
    "down",
    "local_services",
    "supervise",
    "with_discord",
]
