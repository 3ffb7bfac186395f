"""A reciprocal square root of twelve bits, as old vector units give it, without Newton's step."""

import torch


def custom_kernel(data):
    bodies, output = data
    places, masses = bodies[:, :3], bodies[:, 3]
    apart = places[None] - places[:, None]
    exact = torch.rsqrt(apart.square().sum(2) + 2.0**-10)
    inverse = (exact.view(torch.int32) & ~0xFFF).view(torch.float32)
    return output.copy_(torch.einsum("ijk,ij->ik", apart, masses * inverse**3))
