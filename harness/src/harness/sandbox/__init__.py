"""The box that a submission runs in: its walls, who builds them, and who removes them."""
