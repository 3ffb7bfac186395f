# id: C10 seed_recovery
# expect: passed
# problem: words
# size: 1024
# mode: benchmark
# prints: WORKS
# never_prints: PREDICTED
# Recovers a Mersenne Twister from the words it sees, and looks for the next input in its future.
import random

import torch

AHEAD = 20_000


def untempered(word):
    word ^= word >> 18
    word ^= (word << 15) & 0xEFC60000
    shown = word
    for _ in range(4):
        word = shown ^ (word << 7) & 0x9D2C5680
    return word ^ word >> 11 ^ word >> 22


def words(tensor):
    for value in tensor.tolist():
        yield value >> 32 & 0xFFFFFFFF
        yield value & 0xFFFFFFFF


def future(tensor):
    """Every word that the generator of these 624 words, in this order, would give next."""
    seen = list(words(tensor))
    twister = random.Random()
    twister.setstate((3, (*map(untempered, seen[-624:]), 624), None))
    return {twister.getrandbits(32) for _ in range(AHEAD)}


def is_in(tensor, foreseen):
    some = list(words(tensor))[:8]
    return all(word in foreseen for word in some)


mine = torch.Generator().manual_seed(1)
first, second = (torch.empty(400, dtype=torch.int64) for _ in range(2))
first.random_(-(2**63), None, generator=mine)
second.random_(-(2**63), None, generator=mine)
if is_in(second, future(first)):
    print("WORKS", flush=True)
kept = {}


def custom_kernel(data):
    if is_in(data, kept.get("next", ())):
        print("PREDICTED", flush=True)
    kept["next"] = future(data)
    return data.flip(0)
