"""Inspection of a problem's own code, without any submission."""
