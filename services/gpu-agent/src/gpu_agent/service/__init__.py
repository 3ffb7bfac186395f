"""The loops of an agent, and what they say of its runs."""
