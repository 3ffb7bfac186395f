"""Checks of problems on an agent, before they are published."""
