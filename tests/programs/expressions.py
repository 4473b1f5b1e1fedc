"""Expressions of each kind, as text. A production is a text with fields, or takes a scope and the depth left to it."""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter

from tests.programs.writer import TENSORS, Scope

Production = Callable[[Scope, int], str]


def expression(scope: Scope, kind: str, depth: int = 2) -> str:
    """A leaf where no depth is left, else usually something built."""
    if depth <= 0 or scope.choices.chance(30):
        return leaf(scope, kind)
    chosen = scope.choices.choose(PRODUCTIONS[kind])
    return filled(chosen, scope, depth - 1) if isinstance(chosen, str) else chosen(scope, depth - 1)


def filled(text: str, scope: Scope, depth: int) -> str:
    """`{int}` in the text stands for an expression of that kind, `{int_}` for another one, not the same again."""
    fields = {f for _, f, _, _ in Formatter().parse(text) if f}
    return text.format(**{field: expression(scope, field.rstrip("_"), depth) for field in sorted(fields)})


def leaf(scope: Scope, kind: str) -> str:
    names = scope.names(kind)
    if names and not scope.choices.chance(15):
        return scope.choices.choose(names)
    if kind in ("t2", "t1", "t0") and not names:
        bigger = scope.names("t2")
        return SHRUNK[kind].format(scope.choices.choose(bigger)) if bigger else NEW_TENSOR[kind]
    return scope.choices.choose(LITERALS[kind])


SHRUNK = {"t2": "{}", "t1": "{}[0]", "t0": "{}.sum()"}
NEW_TENSOR = {"t2": "torch.ones(3, 4)", "t1": "torch.arange(4.0)", "t0": "torch.tensor(1.5)"}
LITERALS: dict[str, list[str]] = {
    "t2": ["torch.ones(1, 4)", "WEIGHT[:1]", "torch.full((1, 4), FACTOR)"],
    "t1": ["torch.arange(4.0)", "WEIGHT[1]", "torch.zeros(4)"],
    "t0": ["torch.tensor(1.5)", "WEIGHT[0, 1]"],
    "int": ["1", "0", "2", "-1", "3", "COUNT"],
    "float": ["0.5", "2.0", "-1.0", "FACTOR", "0.0"],
    "str": ["'a'", "'b'", "''", "LABEL", "'c d'"],
    "bool": ["True", "False"],
    "list": ["[]", "[WEIGHT[:1]]"],
    "ints": ["[1, 2]", "[]", "ORDER"],
    "dict": ["{}", "{'a': WEIGHT[:1]}"],
    "counts": ["{'a': 1}", "TABLE", "{}"],
    "pair": ["(WEIGHT[:1], WEIGHT[1:2])"],
    "box": ["Box(WEIGHT[:1], 1)"],
    "point": ["Point(WEIGHT[:1])"],
    "module": ["SHARED", "SHARED", "SHARED", "Scale()"],
    "fn": ["make_adder(1)", "torch.sin", "(lambda z: z * 2)"],
}


def binary(kind: str, *operators: str) -> Production:
    """An operator between this kind of tensor and anything that broadcasts into it, either way round."""
    smaller = [*TENSORS[TENSORS.index(kind):], "int", "float"]

    def produce(scope: Scope, depth: int) -> str:
        operands = [expression(scope, kind, depth), expression(scope, scope.choices.choose(smaller), depth)]
        if scope.choices.chance(25):
            operands.reverse()
        return f"({operands[0]} {scope.choices.choose(operators)} {operands[1]})"

    return produce


def unary(kind: str) -> Production:
    texts = ("torch.relu({})", "-{}", "{}.sin()", "{}.abs()", "torch.tanh({})", "{}.clone()", "{}.detach()", "{}.neg()",
             "F.silu({})", "torch.clamp({}, -1, 1)", "{}.square()", "{} * 2", "{}.contiguous()", "{}.to(torch.float32)")

    def produce(scope: Scope, depth: int) -> str:
        return "(" + scope.choices.choose(texts).format(expression(scope, kind, depth)) + ")"

    return produce


def key(scope: Scope, depth: int) -> str:
    """Mostly a key that is there."""
    return expression(scope, "str", 0) if scope.choices.chance(15) else "'a'"


def item_of(kind: str) -> Production:
    """An item of a container that usually has one."""

    def produce(scope: Scope, depth: int) -> str:
        container, text = {"t2": (["list", "dict", "pair"], "t2"), "int": (["ints", "counts"], "int")}[kind]
        chosen = scope.choices.choose(container)
        base = expression(scope, chosen, 0)
        if chosen in ("dict", "counts"):
            return (f"{base}[{key(scope, depth)}]" if scope.choices.chance(40)
                    else f"{base}.get({key(scope, depth)}, {leaf(scope, text)})")
        if chosen == "pair":
            return f"{base}[{scope.choices.choose(('0', '1', '-1'))}]"
        return f"({base}[{scope.choices.choose(('0', '-1'))}] if {base} else {leaf(scope, text)})"

    return produce


def call_of_closure(scope: Scope, depth: int) -> str:
    names = scope.names("fn")
    function = scope.choices.choose(names) if names else leaf(scope, "fn")
    return f"{function}({expression(scope, 't2', depth)})"


def call_of_affine(scope: Scope, depth: int) -> str:
    """All forms that arguments can have."""
    extra = expression(scope, scope.choices.choose(("float", "int", "t1", "t0")), 0)
    forms = ("scale={e}", "", "{e}", "{e}, {i}", "*({e}, {i})", "shift={e}", "**{{'scale': {e}}}", "*{l}",
             "2, *{l}, yy=1",
             "{e}, other={i}, more={e}", "*[{e}], shift={i}, **{{'z': {e}}}")
    texts = {"e": extra, "i": expression(scope, "int", 0), "l": expression(scope, "ints", 0)}
    return f"affine({expression(scope, 't2', depth)}, {scope.choices.choose(forms).format(**texts)})"


def reading_a_tensor(text: str, otherwise: str, kind: str) -> Production:
    """What breaks the graph, rarely; in a program without breaks something else."""

    def produce(scope: Scope, depth: int) -> str:
        if scope.budget.breaks and scope.choices.chance(25):
            return text.format(expression(scope, "t0", depth))
        return expression(scope, otherwise, depth)

    return produce


def same_object(scope: Scope, depth: int) -> str:
    kind = scope.choices.choose(("t2", "list", "box", "dict"))
    return f"({leaf(scope, kind)} {scope.choices.choose(('is', 'is not'))} {leaf(scope, kind)})"


def is_instance(scope: Scope, depth: int) -> str:
    kind = scope.choices.choose(("t2", "int", "float", "str", "list", "box"))
    types = ("torch.Tensor", "int", "(int, float)", "str", "list", "Base", "(list, dict)", "bool")
    return f"isinstance({expression(scope, kind, 0)}, {scope.choices.choose(types)})"


def doubtful(scope: Scope, depth: int) -> str:
    """A name that may be unbound."""
    if scope.doubtful and scope.choices.chance(10):
        return scope.choices.choose(scope.doubtful)
    return leaf(scope, "int")


def f_string(scope: Scope, depth: int) -> str:
    """Of leaves only: before 3.12 quotes don't nest."""
    return f'f"{{{leaf(scope, "str")}}}-{{{leaf(scope, "int")}:>3}}"'


PRODUCTIONS: dict[str, list[str | Production]] = {
    "t2": [
        binary("t2", "+", "*", "-", "/"), unary("t2"), binary("t2", "+", "-"), item_of("t2"), call_of_closure,
        call_of_affine, call_of_affine,
        "torch.where({t2} > {t2_}, {t2}, {t2_})", "torch.maximum({t2}, {t2_})", "fold({t2}, {t2_}, {t2})",
        "{t2}.add({t2_}, alpha=2)", "torch.lerp({t2}, {t2_}, 0.5)", "({t2}.float() @ WEIGHT)",
        "F.linear({t2}.float(), WEIGHT)", "F.softmax({t2}, dim=-1)", "{t2}.view(-1, 4)", "{t2}.reshape({t2}.shape)",
        "{t2}[:]", "{t2}.flip(0)",
        "{t2}.T.T", "torch.cat([{t2}[:1], {t2}[1:]])", "torch.zeros_like({t2})", "{t2}.new_ones({t2}.size())",
        "torch.stack([{t2}, {t2}]).sum(0)", "{t2}.expand(-1, 4)", "{t2}.transpose(0, 1).contiguous().t()",
        "{t2}[..., ::1]", "{t2}.double().float()", "halved({t2}, times=2)", "{t2}.cumsum(dim=1)",
        "{t2}.roll(1, dims=1)", "torch.tril({t2})", "torch.rand_like({t2})", "F.dropout({t2}, 0.5)",
        "({t2} * torch.rand(4))", "recursive({t2}, {int} % 3)", "{box}.scaled({t2})",
        "{box}.scaled({t2}, by={float})", "{box}({t2})", "Box.shift({t2}, {int})", "{box}.shift(by={int}, x={t2})",
        "Box.make({t2}).bump({int}).value", "{box}.value", "{box}.double", "{point}.moved({int}).x", "{point}.x",
        "choose({bool}, {t2}, {box}.value)", "{module}({t2})", "{module}({t2}, by={float})",
        "torch.full_like({t2}, {float})", "({t2} if {bool} else {t2} + 1)", "sum({list}, {t2})",
        "functools.reduce(torch.add, {list}, {t2})", "sum((z * {int} for z in {list}), {t2})",
        "max([{t2}], key=len)", "(lambda z, k={int}: z + k)({t2})", "getattr({box}, 'value')", "next(iter([{t2}]))",
        "[{t2}, {box}.value][{int} % 2]",
    ],
    "t1": [
        binary("t1", "+", "*", "-"), unary("t1"),
        "{t2}[0]", "{t2}[-1]", "{t2}.mean(0)", "{t2}.sum(dim=0)", "{t2}.max(dim=0).values", "{t2}.unbind()[0]",
        "{t2}[{int} % 2]", "[*{t2}][0]", "{t2}.amax(0)", "{t2}[:, 0].sum() + torch.arange(4.0)",
        "{t1}.sort().values", "{t1}[:]", "{t1}.flip(0)", "torch.outer({t1}, {t1}).diagonal()",
        "torch.tensor([1.0, {float}, 2.0, {float}])", "{t1}.view(4)",
    ],
    "t0": [
        binary("t0", "+", "*", "-"), unary("t0"),
        "{t2}.sum()", "{t2}.mean()", "{t2}[0, 1]", "{t2}.max()", "F.mse_loss({t2}, {t2} * 0.5)", "{t2}.norm()",
        "{t1}[0]", "{t1}.sum()", "{t1}.max()", "({t1} @ {t1})", "torch.dot({t1}, {t1})", "torch.tensor({float})",
        "torch.as_tensor({float})",
    ],
    "int": [
        item_of("int"), item_of("int"), doubtful, reading_a_tensor("int({}.item() * 0.01)", "int", "int"),
        "({int} + {int_})", "({int} - {int_})", "({int} * {int_})", "{int} % 3", "({int} // 2)", "({int} // {int_})",
        "len({list})", "len({ints})", "len({dict})", "len({box})", "{t2}.shape[0]", "{t2}.size(1)", "{t1}.dim()",
        "{t2}.numel()", "{box}.count", "{point}.y", "{module}.steps", "abs({int})", "min({int}, {int_}, 3)",
        "int({bool})", "max({int}, 0)", "sum({ints})", "{str}.count('a')", "({int} if {bool} else {int_})",
        "strict({int}, 5)", "sum(k for k in {ints} if k > {int})", "sum({counts}.values())", "len({str}[:2])",
        "(-{int})", "({int} ^ 1)", "list(count_down({int} % 4))[-1:].__len__()", "sum(map(abs, {ints}))",
    ],
    "float": [
        reading_a_tensor("{}.item()", "float", "float"), reading_a_tensor("float({})", "float", "float"),
        "({float} * {float_})", "({float} + {int})", "float({int})", "math.sqrt(abs({float}))", "{module}.gain",
        "({float} / 2)", "({float} / {int})", "round({float}, 1)", "({float} if {bool} else {float_})",
        "max({float}, {float_})",
    ],
    "str": [
        f_string,
        "({str} + {str_})", "{str}.upper()", "str({int})", "{str}[::-1]", "{str}[:2]", "'-'.join({counts})",
        "{box}.describe()", "{box}.kind", "'%s=%d' % ({str}, {int})", "'{{}} {{!r}}'.format({int}, {str})",
        "type({box}).__name__", "{str}.replace('a', 'b')", "repr({int})",
    ],
    "bool": [
        is_instance, same_object, reading_a_tensor("bool({} > 0)", "bool", "bool"),
        reading_a_tensor("({} > 0)", "bool", "bool"),
        "({int} > {int_})", "({int} == {int_})", "({float} < {float_})", "not {bool}", "({bool} and {bool_})",
        "({bool} or {bool_})", "({str} == {str_})", "({str} in {dict})", "({int} in {ints})",
        "({str} not in {counts})", "bool({list})", "(len({list}) > {int})", "(0 < {int} <= {int_})",
        "hasattr({box}, 'extra')", "{t2}.requires_grad", "({t2}.dtype == torch.float32)",
        "({t2}.shape == {t2_}.shape)", "{module}.training", "torch.is_grad_enabled()", "all(k > 0 for k in {ints})",
        "any({ints})", "callable({fn})", "{t2}.is_contiguous()", "({list} is None)",
    ],
    "list": [
        "[{t2}, {t2_}]", "[z * 2 for z in {list}]", "list({list})", "({list} + [{t2}])", "{list}[:1]",
        "[*{list}, *{pair}]", "[{t2} + k for k in range({int} % 3)]", "list(reversed({list}))",
        "[z for z in {list} if {bool}]", "list({dict}.values())", "list(map({fn}, [*{list}]))", "{list}.copy()",
    ],
    "ints": [
        "[{int}, {int_}]", "[k * 2 for k in {ints} if k > {int}]", "list(range({int} % 4))", "sorted({ints})",
        "[*{ints}, {int}]", "list(count_down({int} % 4))", "[len(k) for k in {counts}]",
        "[i * k for i, k in enumerate({ints})]", "{ints}[::-1]", "[i + k for i, k in zip({ints}, {ints_})]",
        "list({counts}.values())", "sorted({{*{ints}, {int}}})",
    ],
    "dict": [
        "{{'a': {t2}}}", "{{**{dict}, 'b': {t2}}}", "dict(a={t2})", "{{k: z * 2 for k, z in {dict}.items()}}",
        "dict(zip('ab', {list}))", "({dict} | {{'c': {t2}}})", "dict({dict})",
    ],
    "counts": [
        "{{'a': {int}}}", "{{**{counts}, 'b': {int}}}", "{{str(k): k for k in {ints}}}",
        "dict(zip(['a', 'b'], {ints}))",
        "{{k: n + 1 for k, n in {counts}.items()}}",
    ],
    "pair": [
        "({t2}, {t2_})", "{pair}[::-1]", "tuple(z + 1 for z in {pair})",
    ],
    "box": [
        "Box({t2}, {int})", "{box}.bump({int})", "Box.make({t2})",
    ],
    "point": [
        "Point({t2}, {int})", "{point}.moved({int})",
    ],
    "module": [
        "{module}",
    ],
    "fn": [
        "make_adder({int})", "make_adder({int}, {ints})", "{box}.scaled", "functools.partial(affine, shift={int})",
        "(lambda z, k={float}: z * k)", "{module}.forward", "functools.partial({box}.shift, by={int})",
    ],
}
