"""The optimiser: it proposes kernels, evaluates them, and keeps the best."""
