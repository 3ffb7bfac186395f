"""Evaluations: many sources for one problem version, which no leaderboard shows."""
