"""Moderation of submissions and participants, and appeals."""
