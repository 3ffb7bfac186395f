"""The commands, one function each, over the ports they need."""
