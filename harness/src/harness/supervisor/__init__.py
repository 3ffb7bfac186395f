"""The trusted process: seeds, reference, clock and verdict."""
