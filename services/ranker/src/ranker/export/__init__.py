"""Exports the log to a file and restores it."""
