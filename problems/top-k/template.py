from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, values, places = data
    # Your kernel goes here. This one repeats the largest value.
    values.copy_(logits.amax(1, keepdim=True).expand_as(values))
    return values, places.copy_(logits.argmax(1, keepdim=True).expand_as(places))
