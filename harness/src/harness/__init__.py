"""Runs one submission against one problem and reports the result."""
