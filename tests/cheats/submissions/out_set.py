# id: C11 out_set
# expect: wrong_answer
def custom_kernel(data):
    left, right, out = data
    out.set_(left @ right)
