"""Accounts of participants, with their tokens and identities."""
