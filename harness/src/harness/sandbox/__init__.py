"""The box that a submission lives in: its walls, who builds them, and who takes them down."""
