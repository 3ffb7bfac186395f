"""The log as a file, and back."""
