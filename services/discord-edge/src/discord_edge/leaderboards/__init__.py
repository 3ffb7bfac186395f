"""Leaderboards: rankings, and what is open for submissions."""
