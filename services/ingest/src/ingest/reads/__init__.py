"""Reads, which ranker answers."""
