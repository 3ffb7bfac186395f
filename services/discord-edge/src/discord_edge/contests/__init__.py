"""Contests: commands for participants, and announcements of phases, moved times and results."""
