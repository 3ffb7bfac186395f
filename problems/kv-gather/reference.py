"""The pages of a cache as one row of tokens for each sequence."""

import torch
from task import input_t, output_t
from utils import get_device

# So much of the pool no sequence uses.
SPARE = 2


def generate_input(batch: int, pages: int, page: int, width: int, seed: int) -> input_t:
    """A pool of random bits, tables of pages that are all different, lengths, and a buffer."""
    device = get_device()
    generator = torch.Generator(device).manual_seed(seed)
    count = SPARE * batch * pages
    pool = torch.empty(count, page, width, dtype=torch.int16, device=device)
    pool.random_(-(2**15), 2**15, generator=generator)
    order = torch.randperm(count, generator=generator, device=device)
    tables = order[: batch * pages].int().view(batch, pages)
    lengths = torch.randint(1, pages * page + 1, (batch,), generator=generator, device=device)
    # One sequence is full; where there are two, one ends with a page.
    lengths[-1] = pages * page
    lengths[0] = -(-int(lengths[0]) // page) * page
    output = torch.zeros(batch, pages * page, width, dtype=torch.int16, device=device)
    return pool, tables, lengths.int(), output


def ref_kernel(data: input_t) -> output_t:
    """Gathers with torch and clears what is behind the lengths."""
    pool, tables, lengths, output = data
    batch, tokens, _ = output.shape
    torch.index_select(pool, 0, tables.view(-1), out=output.view(-1, *pool.shape[1:]))
    places = torch.arange(tokens, device=output.device).expand(batch, tokens)
    return output.masked_fill_((places >= lengths[:, None])[:, :, None], 0)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Compares exactly, the zeros behind the lengths too."""
    *inputs, buffer = data
    if output.dtype != buffer.dtype or output.shape != buffer.shape:
        return False, f"got {output.dtype} {list(output.shape)}, expected {list(buffer.shape)}"
    want = ref_kernel((*inputs, torch.empty_like(buffer)))
    wrong = output != want
    count = int(wrong.sum())
    if count == 0:
        return True, ""
    place = tuple(wrong.nonzero()[0].tolist())
    pair = f"got {output[place].item()}, expected {want[place].item()}"
    return False, f"{count} of {wrong.numel()} values differ, the first at {list(place)}: {pair}"
