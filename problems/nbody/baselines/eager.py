"""All pairs at once, as matrices."""

import torch


def custom_kernel(data):
    bodies, output = data
    places, masses = bodies[:, :3], bodies[:, 3]
    apart = places[None] - places[:, None]
    inverse = torch.rsqrt(apart.square().sum(2) + 2.0**-10)
    return output.copy_(torch.einsum("ijk,ij->ik", apart, masses * inverse**3))
