# An item of a list by an index that changes is an expression, and nobody needs this one: that another index is out of
# range must still be seen.
def program(x, n, ks):
    y = x + 1
    ks[n]
    return y


def calls():
    x, ks = torch.ones(2), [0, 2]
    return [(x, n, ks) for n in (1, 0, 1, 5, -2, -3)]
