"""Decides which agent runs which job."""
