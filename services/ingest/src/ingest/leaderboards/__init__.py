"""Leaderboard settings, as authors and operators read and change them."""
