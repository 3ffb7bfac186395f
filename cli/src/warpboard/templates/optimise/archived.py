#!POPCORN leaderboard nbody
#!POPCORN gpus CPU
"""Blocks that stay in a cache, and one division less for each pair."""

import torch

BLOCK = 64
EPS_SQUARED = 2.0**-10


def weigh(squares, masses):
    """Return the weight of each pair."""
    inverse = torch.rsqrt(squares)
    return masses * (inverse * inverse * inverse)


def pull_vectors(places, masses, rows):
    """Keep differences as vectors."""
    apart = places[None] - places[rows, None]
    weights = weigh(apart.square().sum(2) + EPS_SQUARED, masses)
    return torch.einsum("ijk,ij->ik", apart, weights)


def custom_kernel(data):
    """Take a block of bodies at a time."""
    bodies, output = data
    places, masses = bodies[:, :3].contiguous(), bodies[:, 3].contiguous()
    for first in range(0, len(bodies), BLOCK):
        rows = slice(first, first + BLOCK)
        output[rows] = pull_vectors(places, masses, rows)
    return output
