#!POPCORN leaderboard nbody
#!POPCORN gpus CPU
#!WARPBOARD tune BLOCK 8 32 128 512 2048
#!WARPBOARD tune FORM "vectors" "planes" "products"
"""The accelerations of all bodies, for a block of them at a time."""

import torch

# 2048 is all of them at once.
BLOCK = 2048
FORM = "vectors"
EPS_SQUARED = 2.0**-10


def weigh(squares, masses):
    """Return the weight of each pair."""
    return masses / (squares * squares.sqrt())


def pull_vectors(places, masses, rows):
    """Keep differences as vectors."""
    apart = places[None] - places[rows, None]
    weights = weigh(apart.square().sum(2) + EPS_SQUARED, masses)
    return (apart * weights[:, :, None]).sum(1)


def pull_planes(places, masses, rows):
    """Keep each coordinate in a matrix of its own."""
    planes = places.T.contiguous()
    apart = [plane[None] - plane[rows, None] for plane in planes]
    weights = weigh(sum(plane * plane for plane in apart) + EPS_SQUARED, masses)
    return torch.stack([(plane * weights).sum(1) for plane in apart], 1)


def pull_products(places, masses, rows):
    """Add up by a product of matrices."""
    # The differences cancel, so it is too inexact for the check.
    squares = torch.cdist(places[rows], places).square() + EPS_SQUARED
    weights = weigh(squares, masses)
    return weights @ places - weights.sum(1, keepdim=True) * places[rows]


def custom_kernel(data):
    """Take a block of bodies at a time."""
    bodies, output = data
    places, masses = bodies[:, :3].contiguous(), bodies[:, 3].contiguous()
    pull = {"vectors": pull_vectors, "planes": pull_planes, "products": pull_products}[FORM]
    for first in range(0, len(bodies), BLOCK):
        rows = slice(first, first + BLOCK)
        output[rows] = pull(places, masses, rows)
    return output
