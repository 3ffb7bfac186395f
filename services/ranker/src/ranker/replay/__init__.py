"""Folds a projection again beside the live one, compares the two, and switches."""
