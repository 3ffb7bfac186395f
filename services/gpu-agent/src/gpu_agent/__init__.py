"""Runs one job on one GPU and reports what it measured."""
