"""A whole platform under a seeded plan of kills, and what must hold of its log afterwards."""
