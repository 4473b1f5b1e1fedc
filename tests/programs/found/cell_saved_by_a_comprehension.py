# An inlined comprehension whose variable is a cell of the function: a region that begins within it meets the saved cell
# in a plain slot, and had then no cell to make the closure of (KeyError in load_closure).
def program(x, n):
    first = {k: n + 1 for k, n in {"a": 1}.items()}
    for y in (z * n for z in [x]):
        first["b"] = y
    return first


def calls():
    x = torch.ones(3)
    return [(x, 1), (x, 2), (x, 1), (x, 1)]
