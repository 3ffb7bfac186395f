"""The commands, one function each, over the ports that they need."""
