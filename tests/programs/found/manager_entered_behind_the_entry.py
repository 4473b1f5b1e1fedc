# A region that ends in front of the `try`, since its graph writes to an input, may hand over to one that begins between
# making a manager and entering it: `enable_grad` has no `prev` by then.
def program(box):
    box.value += 1
    try:
        with torch.enable_grad():
            y = box.value * 2
    except (RuntimeError, ZeroDivisionError):
        y = None
    return y


def calls():
    box = Box(torch.linspace(-1.0, 3.0, 12).reshape(4, 3))
    return [(box,), (box,), (box,)]
