"""What is said about a run: requests, reports, verdicts, and what a submission printed."""
