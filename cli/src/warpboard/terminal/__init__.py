"""The terminal: commands come in from it, tables and progress go out to it."""
