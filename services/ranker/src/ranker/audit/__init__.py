"""Audits: a leaderboard must match the log, and the log must be unchanged."""
