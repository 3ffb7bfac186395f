"""Quotas: limits on what a participant may submit."""
