"""The web site: the pages of leaderboards, problems, submissions, people and the platform."""
