# A generator that a region began and dropped where it waits in a `try`: its `finally` did not run.
def program(x):
    def dropped(a):
        try:
            yield a
        finally:
            print("finally")

    next(dropped(x))
    return x + 1


def calls():
    x = torch.ones(3)
    return [(x,), (x,), (x,), (x,)]
