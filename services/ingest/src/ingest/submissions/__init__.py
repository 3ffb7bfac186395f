"""Submissions: accepting them, and what happens to them afterwards."""
