# The class of an earlier call is gone while a region still names it: its guards are no error, they don't hold.
def program(x, y, f, ks, pair):
    random.choice(ks)
    class C1(Base):
        def method(self, a, by=1):
            LOG.append(float(y.max()))
            self.count += 1
            return x * self.count
    o2 = C1(x, 1)
    SEEN.extend(map(o2.method, (x, y)))
    @logged
    def f4(a5, by=f):
        v6 = {str(k): zlib.crc32(b'a') % 7 + k for k in sorted([1, 2])[:3]}  # noqa: F841
        a5 = (x > -1).to(torch.int64) * by  # noqa: F841
        if not ((x * torch.rand(4)) > 0).all():
            pass
        else:
            pass
        return o2.scaled(x, by=f)[..., ::1] * by
    SEEN.append(functools.partial(f4, by=f)(y))
    SEEN.append(f4(Box(WEIGHT[:1], 1).scaled(WEIGHT[:1], by=f), by=(-1 if False else 0)))
    return (torch.full((1, 4), FACTOR)[0, 1].abs())


def pool(rows, kind, grad):
    x_0 = torch.ones(rows, 4, dtype=kind)
    x_1 = x_0[:]
    y_0 = torch.linspace(0.0, 1.0, 4 * rows, dtype=kind).reshape(rows, 4).requires_grad_(grad)
    f_0 = 1.0
    ks_0 = [1, 2]
    pair_0 = (x_1, torch.ones(rows, 4))
    pair_1 = (y_0, torch.ones(rows, 4))
    return locals()


def calls():
    first = pool(3, torch.float32, False)
    return [
        (first["x_0"], first["y_0"], first["f_0"], first["ks_0"], first["pair_0"],),
        (first["x_0"], first["y_0"], first["f_0"], first["ks_0"], first["pair_1"],),
        (first["x_0"], first["y_0"], first["f_0"], first["ks_0"], first["pair_1"],),
    ] * 2
