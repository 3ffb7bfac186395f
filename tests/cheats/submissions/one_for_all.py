# id: C15 low_precision
# expect: wrong_answer
# problem: words
# answers: checked
# says: expected int64[32]
# One value that a check which broadcasts would compare with all.
def custom_kernel(data):
    return data[-1:]
