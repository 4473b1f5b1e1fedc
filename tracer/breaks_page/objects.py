"""Examples of breaks at objects, classes, modules and containers."""

from __future__ import annotations

from .running import Example

EXAMPLES = {
    "object is made by C code": Example("""\
import threading

def f(x):
    y = x * 2
    event = threading.local()  # <- break
    return y + 1, type(event)

f(torch.ones(3))
"""),
    "object has a finalizer": Example("""\
class Noisy:
    def __del__(self):
        pass

def f(x):
    y = x * 2
    noisy = Noisy()  # <- break
    return y + 1

f(torch.ones(3))
"""),
    "module or tensor subclass is created": Example("""\
def f(x):
    y = x * 2
    weight = torch.nn.Parameter(y)  # <- break
    return weight * y

f(torch.ones(3))
"""),
    "module registers something": Example("""\
layer = torch.nn.Linear(3, 3)

def f(x):
    y = x * 2
    layer.weight = layer.weight  # <- break
    return y + 1

f(torch.ones(3))
"""),
    "module is not supported": Example("""\
layer = torch.nn.Linear(3, 3)

def f(x):
    y = x * 2
    return y + layer.to(memory_format=torch.channels_last).in_features  # <- break

f(torch.ones(3))
"""),
    "class is defined in the function": Example("""\
def f(x):
    y = x * 2
    class Pair:  # <- break
        first = 1
    return y + Pair.first

f(torch.ones(3))
"""),
    "attribute cannot be read": Example("""\
def g(a, *, b=1):
    return a

def f(x):
    y = x * 2
    return y + len(g.__kwdefaults__)  # <- break

f(torch.ones(3))
"""),
    "attribute cannot be set": Example("""\
def f(x):
    y = x * 2
    y.label = "doubled"  # <- break
    return y + 1

f(torch.ones(3))
"""),
    "isinstance() runs code of a class": Example("""\
class Numbered(type):
    def __instancecheck__(cls, obj):
        return hasattr(obj, "number")

class Number(metaclass=Numbered):
    pass

def f(x, obj):
    y = x * 2
    return y + isinstance(obj, Number)  # <- break

f(torch.ones(3), "text")
"""),
    "special method gives an unusual result": Example("""\
class Sized:
    def __len__(self):
        return True

def f(x, sized):
    y = x * 2
    return y + len(sized)  # <- break

f(torch.ones(3), Sized())
"""),
    "identity of equal constants": Example("""\
def f(x, a, b):
    y = x * 2
    return y + (a is b)  # <- break

f(torch.ones(3), "some text", "".join(["some ", "text"]))
"""),
    "object is copied": Example("""\
import copy

class Settings:
    def __reduce__(self):
        return Settings, ()

def f(x, settings):
    y = x * 2
    return y, copy.deepcopy(settings)  # <- break

f(torch.ones(3), Settings())
"""),
    "object cannot be rebuilt": Example("""\
def f(x):
    y = x * 2
    error = None
    try:
        raise ValueError("kept")  # <- break
    except ValueError as caught:
        error = caught
    return y + 1, error

f(torch.ones(3))
"""),
    "value is known at run time only": Example("""\
def f(x):
    y = x * 2
    table = {"double": lambda a: a * 2}
    return y + (hash(table["double"]) == 0)  # <- break

f(torch.ones(3))
"""),
    "result type is not supported": Example("""\
def f(x, data):
    y = x * 2
    view = memoryview(data)  # <- break
    return y + view[0]

f(torch.ones(3), b"abc")
"""),
    "object from outside is not supported": Example("""\
info = torch.finfo(torch.float32)

def f(x):
    y = x * 2
    return y + info.eps  # <- break

f(torch.ones(3))
"""),
    "operation is not supported": Example("""\
def f(x, data):
    y = x * 2
    return y + data[0]  # <- break

f(torch.ones(3), memoryview(b"12"))
"""),
    "operator is not supported for these types": Example("""\
def f(x, units):
    y = x * 2
    return y + (units.items() & {("m", 1)} != set())  # <- break

f(torch.ones(3), {"m": 1})
"""),
    "key is not supported": Example("""\
def f(x, table):
    y = x * 2
    return y + table[float("nan")]  # <- break

f(torch.ones(3), {})
"""),
    "order of a set is unknown": Example("""\
def f(x, names):
    y = x * 2
    names.add("c")
    for name in names:  # <- break
        y = y + len(name)
    return y

f(torch.ones(3), {"a", "b"})
"""),
    "container changes while it is iterated": Example("""\
def f(x):
    y = x * 2
    table = {"a": 1, "b": 2}
    for key in table:  # <- break
        if key == "a":
            table["c"] = table.pop("b")
    return y + len(table)

f(torch.ones(3))
"""),
    "weak reference is called": Example("""\
import weakref

class Model:
    scale = 3

def f(x, model, reference):
    y = x * model.scale
    model = None
    return y + reference().scale  # <- break

def call(x):
    model = Model()
    return f(x, model, weakref.ref(model))

call(torch.ones(3))
"""),
    "comprehension variable is shared": Example(
        """\
def f(x):
    y = x * 2
    n = 1
    add = lambda: n
    total = sum([  # <- break
        n for n in range(3)
        if print(n) is None
    ])
    return y + add() + total

f(torch.ones(3))
""",
        python=(3, 12),
    ),
    "template string is made": Example(
        """\
def f(x, name):
    y = x * 2
    template = t"{name}"  # <- break
    return y + len(template.values)

f(torch.ones(3), "a")
""",
        python=(3, 14),
    ),
}
