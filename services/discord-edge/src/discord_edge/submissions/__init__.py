"""Submissions: the commands and buttons, their threads and their reports."""
