"""Webhooks: added, listed, tested and removed by their owners."""
