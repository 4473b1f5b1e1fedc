# What a capture made must be let go of by counting references: a circle from its graph back to it kept the generator
# alive, whose `finally` then ran at some later time.
async def program(x, y, f, items, flag, ks, row, counts, scalar):
    v7 = (torch.full_like(x, f), {}.get('a', y))[::-1]

    def f9(a10, by=f):

        def g13(a):
            try:
                yield from tuple(z + 1 for z in v7)
            finally:
                print('finally')
        for i14 in g13(x.expand(-1, 4)):
            if v11 > by:
                break
    SEEN.extend([f9(z) for z in (WEIGHT[:1], WEIGHT[1:2])])

def drive(entry, *arguments):
    return stepped(entry(*arguments))

def pool(rows, kind, grad):
    x_0 = torch.linspace(-2.0, 2.0, 4 * rows, dtype=kind).reshape(rows, 4)
    x_1 = x_0[:]
    y_0 = x_0.detach()
    f_0 = 0.5
    items_0 = []
    items_1 = [y_0]
    items_2 = [x_0]
    flag_0 = False
    ks_0 = [1, 2]
    ks_1 = [0]
    row_0 = torch.ones(4, dtype=kind)
    row_1 = torch.ones(4, dtype=kind)
    counts_0 = {'a': 1}
    scalar_0 = x_0[0, 0]
    return locals()

def calls():
    first, names = pool(3, torch.float32, False), ("f_0", "{}", "flag_0", "{}", "{}", "counts_0", "scalar_0")
    return [
        (first[x], first["y_0"], *(first[n.format(own)] for n, own in zip(names, owns)))
        for x, owns in (
            ("x_0", ("", "items_0", "", "ks_0", "row_0", "", "")),
            ("x_1", ("", "items_1", "", "ks_1", "row_1", "", "")),
            ("x_0", ("", "items_2", "", "ks_0", "row_0", "", "")),
        )
    ]
