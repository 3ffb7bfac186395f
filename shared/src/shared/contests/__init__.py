"""Contests: their definition, and the phase at an instant."""
