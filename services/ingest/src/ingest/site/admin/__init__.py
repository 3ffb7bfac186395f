"""The pages of operators."""
