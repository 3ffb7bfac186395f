"""Folds events into leaderboards and shows them."""
