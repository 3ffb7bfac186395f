"""Agents and pools, as operators manage them."""
