# The fake tensors of a capture do not see that x[0] lies within x, so the graph raises when it runs. A graph that
# writes to an input cannot be dropped and repeated by the original bytecode: its region begins within the `try`.
def program(x):
    try:
        x += x[0]
    except RuntimeError:
        return "caught"
    return x


def calls():
    return [(torch.ones(3, 4),), (torch.ones(3, 4),)]
