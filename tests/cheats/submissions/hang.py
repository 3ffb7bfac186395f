# id: S14 hang
# expect: timed_out
# budgets: build=2 test=0.5
def custom_kernel(data):
    while True:
        pass
