"""Checks of problems: the same on an author's machine and on an agent."""
