# An operator whose result nobody uses is left out of the graph, as torch.compile does. Fake tensors don't refuse to
# subtract a bool, so the exception that running it would raise is lost. (So is that of `x.max()`
# where x has no elements.)
def program(x, n):
    x - n
    return x + 1


def calls():
    x = torch.ones(3)
    return [(x, 1), (x, True), (x, 1)]
