"""Agents and pools, which operators manage."""
