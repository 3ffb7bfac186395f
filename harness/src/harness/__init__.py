"""Runs one submission against one problem and says what happened."""
