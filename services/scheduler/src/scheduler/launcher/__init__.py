"""Starts agents on demand, each for one job, when the scheduler asks for one."""
