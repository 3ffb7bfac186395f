"""What became of a submission, in the words that every place shows: terminal, page, Discord."""
