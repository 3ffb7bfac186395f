"""The worker process: it holds the submission and is not trusted."""
