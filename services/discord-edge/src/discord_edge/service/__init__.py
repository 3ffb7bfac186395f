"""What the edge does between Discord and the platform: it remembers leaderboards, and follows."""
