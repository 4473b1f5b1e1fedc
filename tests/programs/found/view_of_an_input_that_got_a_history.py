# The call that gives an input a history comes before a view of that input becomes one: torch asserts that the fake of
# the view's base is what the base is (AssertionError: False != True). Three orders and kinds of sharing.
def program(x, row):
    x -= SHARED(x)
    return x.requires_grad, row.requires_grad, (row + 1).requires_grad, row * 2, x.sum()


def calls():
    def one():
        x = torch.ones(3, 4)
        return x, x[0]
    def two():
        x = torch.ones(3, 4)
        return x[0], x
    def three():
        x = torch.ones(3, 4)
        return x[1:], x[0]
    return [one(), one(), two(), two(), three(), one()]
