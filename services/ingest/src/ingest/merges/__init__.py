"""Merging two accounts of one person, which can be undone for a week."""
