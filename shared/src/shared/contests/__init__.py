"""Contests: their definition, the file that declares it, and the phase at an instant."""
