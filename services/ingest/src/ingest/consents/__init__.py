"""Consents that problems require before submitting."""
