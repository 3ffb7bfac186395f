"""Preferences for notifications."""
