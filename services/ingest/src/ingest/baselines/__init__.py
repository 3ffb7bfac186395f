"""Baselines: the submissions that the platform itself runs for a problem version."""
