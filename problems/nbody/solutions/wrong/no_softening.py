"""Forgets the softening, and leaves out a body's pair with itself, which has no distance."""

import torch


def custom_kernel(data):
    bodies, output = data
    places, masses = bodies[:, :3], bodies[:, 3]
    apart = places[None] - places[:, None]
    inverse = torch.rsqrt(apart.square().sum(2)).nan_to_num(posinf=0.0)
    return output.copy_(torch.einsum("ijk,ij->ik", apart, masses * inverse**3))
