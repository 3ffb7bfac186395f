# id: C04 nan
# expect: wrong_answer
def custom_kernel(data):
    for tensor in data:
        tensor.fill_(float("nan"))
    return data[2]
