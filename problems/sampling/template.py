from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, temperatures, shares, draws, k, output = data
    # Your kernel goes here. This one always takes the likeliest token.
    return output.copy_(logits.argmax(1))
