"""Preferences for notifications on Discord."""
