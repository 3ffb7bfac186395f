"""The result of a submission, in the words used everywhere: terminal, web page, Discord."""
