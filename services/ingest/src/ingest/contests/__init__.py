"""Contests: definitions, registration, teams, declarations, and who may submit when."""
