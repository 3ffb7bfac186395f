"""How often somebody may try to come in: the same limits as everywhere."""

from ingest.service.tries import Tries

__all__ = ["Tries"]
