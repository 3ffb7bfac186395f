"""The public HTTP API: accepts submissions and problems, forwards reads to ranker."""
