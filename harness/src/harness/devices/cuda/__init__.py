"""A referee for NVIDIA GPUs: its own context, its own clock, memory that a worker may map."""
