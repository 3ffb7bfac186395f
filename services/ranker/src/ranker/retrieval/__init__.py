"""What the search of the archive compares: sources and problems as words, operations and code."""
