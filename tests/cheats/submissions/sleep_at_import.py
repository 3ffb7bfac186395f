# id: S16 sleep_at_import
# expect: timed_out
# budgets: build=1
import time

time.sleep(60)


def custom_kernel(data):
    return data[2]
