"""What a caller may see and do, folded from the log."""
