# Two inputs of a graph whose sources give one identifier (`box.value` and `box_value`; one number as float32 and as
# float64): the graph's forward had two parameters of one name.
def program(x, row, box_value, box, f):
    for _ in range(2):
        x = x * f + box_value - box.value
        row = (row.sum() * f) + row * f
    return x, row


def calls():
    x = torch.ones(3)
    return [(x, torch.ones(2), x + i, Box(x * 2, 1), f) for i, f in enumerate((0.5, 1.5, 2.5, -0.5))]
