# A graph's inputs are a leaf that got a gradient and, behind it, a view of it: torch compares the leaf with its fake,
# which was made without its gradient (AssertionError: True != False).
def program(x, items):
    return sum(items, x)


def calls():
    x = torch.full((3, 4), 0.25).requires_grad_(True)
    return [(x, [torch.ones(3, 4), x, x[:]]), (2, [torch.ones(3, 4), x, x[:]]), (2, [x[1:], x[1:]])]
