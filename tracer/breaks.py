"""Every title that a graph break can have, with what it means and what the user can do: the one list of them.

Below everything that raises: `GraphBreak("title", details)` takes its hint from here, unless the place that raises
knows a better one. Titles are stable, so that programs may count by them; what varies goes into the details. A test
finds every title in the code and compares; the programs that docs/breaks.md shows are in `tracer/breaks_page/`.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """What a title means, as a sentence for docs/breaks.md, and what the user can do."""

    meaning: str
    hint: str


_OUTSIDE = "do it before or after the compiled function, or leave it: the code around it is compiled"

#: by title, in the order of docs/breaks.md
BREAKS: dict[str, Row] = {
    # values of tensors ----------------------------------------------------------------------------------------------
    "tensor value is read": Row(
        "Python needs a number, a list or a text that is known only when the tensor has been computed.",
        "keep the value a tensor, or read it at the end of the function",
    ),
    "branch on a tensor": Row(
        "`if`, `while`, `and`, `or`, `not`, `in` or `bool()` of a tensor: which way the program goes depends on its "
        "value. Both ways are compiled, each as a region of its own. No break is an `assert`, or an `if` one way of "
        "which only raises, unless the graph writes to its inputs or does other things that must not be done in vain.",
        "use torch.where or another operator, or leave it: both branches are compiled",
    ),
    "shape depends on a tensor's values": Row(
        "How large the operator's result is depends on what the tensors hold.",
        "use an operator whose result has a fixed shape (torch.where, a mask that is multiplied), or leave it",
    ),
    "tensor becomes a NumPy array": Row(
        "NumPy computes on the tensor's memory, which no graph can follow.",
        "use torch operators instead of NumPy's",
    ),
    "NumPy array is used": Row(
        "Arrays are handed on as they are. What is done with them is NumPy's, and no graph can follow it.",
        "make tensors of arrays (torch.from_numpy) before the compiled function, or leave it: what is around it is "
        "compiled",
    ),
    "tensor memory is accessed": Row(
        "The program asks for a tensor's address or storage, shares it, or exchanges it. At capture there is none.",
        "use operators on the tensor, or do it before or after the compiled function",
    ),
    "size that is marked dynamic is one number": Row(
        "With fullgraph: `mark_dynamic` asks for a region for all sizes, but the size is 0 or 1, which are compiled "
        "apart, or a line of the program needs it to be one number.",
        "use maybe_mark_dynamic, change the line that the details name, or pad to at least 2",
    ),
    # tensors --------------------------------------------------------------------------------------------------------
    "kind of tensor is not supported": Row(
        "Sparse, quantized, nested and named tensors, those on the meta device and of functorch cannot enter a graph.",
        "use dense, strided tensors on a real device in compiled code",
    ),
    "tensor subclass is not supported": Row(
        "A subclass of Tensor may give every operator another meaning.",
        "use torch.Tensor, nn.Parameter or nn.Buffer in compiled code",
    ),
    "argument cannot be in a graph": Row(
        "An operator is given something that is neither a tensor, a plain value nor a list or tuple of these: a "
        "torch.Generator, a function.",
        "pass tensors, numbers, strings, dtypes, devices, and lists or tuples of them",
    ),
    "result cannot be in a graph": Row(
        "An operator gives something that is neither a tensor, a plain value nor a collection of these.",
        _OUTSIDE,
    ),
    # operators ------------------------------------------------------------------------------------------------------
    "operator has no fake kernel": Row(
        "Capture runs operators on tensors without data, and this one does not say what it gives for such.",
        "register one with torch.library.register_fake",
    ),
    "torch function is no operator": Row(
        "A function of torch's that neither takes nor gives a tensor: it asks or changes torch itself.",
        "call it before the compiled function",
    ),
    "random state is set or read": Row(
        "Seeding, saving or restoring the state of a random generator happens at once, not in a graph.",
        "seed before the compiled function",
    ),
    "device is synchronized or switched": Row(
        "Waiting for a device, or choosing another one, is nothing that a graph can hold.",
        "do it before or after the compiled function",
    ),
    "global state of torch is changed": Row(
        "The function changes a setting that holds for everything that torch does.",
        "change it before the compiled function",
    ),
    # autograd -------------------------------------------------------------------------------------------------------
    "backward is run": Row(
        "backward() and torch.autograd.grad run the autograd engine. The code before is compiled with its backward.",
        "leave it: forward and backward are compiled; or call it outside of the compiled function",
    ),
    "hook is registered on a tensor": Row(
        "Autograd calls the hook later. One that only computes, on a tensor that the function makes, is part of the "
        "graph; one on a tensor from outside, one that does more, and one whose handle is kept, are not.",
        "register hooks before or after the compiled function, or let the hook only compute",
    ),
    "autograd state of a tensor is changed": Row(
        "The function changes whether and how autograd follows a tensor.",
        "set it where the tensor is made, before the compiled function",
    ),
    "autograd state of a tensor is read": Row(
        "The gradient, history or version of a tensor that exists only within the graph.",
        "read it behind the compiled function",
    ),
    "custom autograd function is called": Row(
        "A subclass of torch.autograd.Function whose forward or backward does more than compute with its arguments, "
        "or is given what no graph can hold; or the one on whose node torch hangs a module's backward hooks.",
        "give it every tensor that it uses as an argument, and let it change nothing else",
    ),
    "function given to torch has effects": Row(
        "A function that is checkpointed, transformed by torch.func or given to torch.cond and its like changes "
        "something that was there before, or depends on torch's state. Torch calls it when and how often it likes.",
        "let it return what it computes",
    ),
    # torch's modes --------------------------------------------------------------------------------------------------
    "torch mode is active": Row(
        "A torch function or dispatch mode, a functorch transform or forward-mode AD is active around the call: it "
        "would see other calls than those that the program makes.",
        "call the compiled function outside of the mode, or compile what enters it",
    ),
    "torch mode is left open": Row(
        "autocast or inference_mode is entered and not left in this region, which ends before: what enters a mode must "
        "leave it.",
        "enter modes by `with`, and do what breaks before or after the block",
    ),
    "context manager is not supported": Row(
        "This use of a context manager is not captured: entered outside or twice, or made with unusual arguments.",
        "write `with manager(...):` with constant arguments inside of the function",
    ),
    # output, input, the interpreter ---------------------------------------------------------------------------------
    "print() writes output": Row(
        "Output happens in the order of the program, so the original instruction writes it.",
        "leave it: the code before and after it is compiled; or print at the end of the function",
    ),
    "file is read or written": Row(
        "Opening files, and torch.save and torch.load, are not captured.",
        "do it before or after the compiled function",
    ),
    "input() reads a line": Row(
        "What the user will type is not known at capture.",
        "ask before the compiled function",
    ),
    "breakpoint() stops the program": Row(
        "The debugger stops in the original code, with all locals as they are in plain Python.",
        "remove it when you have finished",
    ),
    "code is made from text": Row(
        "exec(), eval() and compile() make code at run time.",
        "write the code as a function",
    ),
    "names of a namespace are listed": Row(
        "globals(), locals() and dir() give all names at once, with what is bound to them.",
        "name the variable or attribute, or use getattr()",
    ),
    "id() gives an address": Row(
        "An object's address is known only at run time.",
        "compare objects with `is`, or key a dict by the object itself",
    ),
    "import is run": Row(
        "A relative import, or one of a module that has not been loaded yet, runs the import system.",
        "import it at the top of the module",
    ),
    # functions and calls --------------------------------------------------------------------------------------------
    "function written in C is called": Row(
        "No bytecode can be read, and nothing says that the function is pure: clocks, random numbers, C extensions.",
        "leave it: the code around it is compiled; or write it in Python or with torch operators",
    ),
    "method written in C is called": Row(
        "A method of a class that is made in C, or a method of `object` that shows an address.",
        "leave it: the code around it is compiled; or give the class a method written in Python",
    ),
    "library function is called": Row(
        "A function of Python's library (logging, json, threading, ...) that does what no region can do. What happens "
        "inside of it is its own business: the break is at the call.",
        "leave it: the code around it is compiled",
    ),
    "cached function is called anew": Row(
        "functools.lru_cache with a bound, or with an object as an argument: only its own code can fill the cache. A "
        "call that is found there is captured.",
        "leave it: later calls with the same arguments are captured; or use functools.cache with plain arguments",
    ),
    "builtin function is given an object": Row(
        "A function written in C is given an object of the user's, whose methods it could call.",
        "give it numbers, strings and containers of these, or call a method of the object",
    ),
    "function is disabled": Row(
        "The function was marked with tracer.disable or torch.compiler.disable: it runs plain.",
        "take the mark away, if it need not run plain",
    ),
    "arguments do not fit the call": Row(
        "The call is wrong, so the original instruction raises the TypeError, in Python's own words.",
        "mend the call",
    ),
    "Python raises or warns here": Row(
        "The program is about to raise an error, or to be warned, whose exact words and state are Python's business: "
        "the original instruction does it.",
        "if you did not expect an error, mend the program",
    ),
    "calls are nested too deeply": Row(
        "Calls of Python functions are read in place, down to a limit. Recursion without end reaches it.",
        "use a loop in place of the recursion",
    ),
    "capture takes too long": Row(
        "The function is too long once its calls are read and its loops unrolled, or a constant would be huge.",
        "compile a smaller function, such as the body of the loop",
    ),
    "super() cannot be resolved": Row(
        "super() with one argument, outside of a method, or without the method's first argument.",
        "write super() or super(cls, self) in a method",
    ),
    # exceptions -----------------------------------------------------------------------------------------------------
    "exception leaves the function": Row(
        "The region ends before the instruction that raises; that one raises, so the traceback is Python's own.",
        "leave it: everything before it is compiled",
    ),
    "exception group is handled": Row(
        "`except*` takes exception groups apart, which is not captured.",
        "leave it: the code around it is compiled; or put it into a function of its own",
    ),
    # generators and coroutines --------------------------------------------------------------------------------------
    "yield hands out a value": Row(
        "A generator is suspended here; the code between two yields is compiled.",
        "leave it: the regions between yields are compiled",
    ),
    "generator is left inside try or with": Row(
        "A generator that the function made stands in a `try` or `with` block: closing or dropping it runs code.",
        "run the generator to its end, or make it outside of the compiled function",
    ),
    "coroutine is suspended or called": Row(
        "`await`, `async for` and `async with` belong to the event loop. An `async def` function that is called in the "
        "region is compiled as well.",
        "leave it: the code between two awaits is compiled",
    ),
    "iterator from outside is advanced": Row(
        "The iterator existed before the region. Only the original code may advance it: others may hold it too.",
        "leave it: the body of the loop is compiled; or make the iterator inside of the function",
    ),
    # objects --------------------------------------------------------------------------------------------------------
    "object is made by C code": Row(
        "The class has a constructor written in C, or inherits one: what it does cannot be read.",
        "make the object before the compiled function",
    ),
    "object has a finalizer": Row(
        "When an object with `__del__` dies, code runs. When that would be is the original code's business.",
        "make and change it outside of the compiled function",
    ),
    "module or tensor subclass is created": Row(
        "Making an nn.Module or a tensor subclass registers parameters and hooks.",
        "make it before the compiled function",
    ),
    "module registers something": Row(
        "Setting or deleting a parameter, a child or a special buffer changes what the module holds.",
        "build the module before the compiled function",
    ),
    "module is not supported": Row(
        "A method of nn.Module is called on an object that is no plain module, such as a scripted one, or `to()` may "
        "change the parameters, or the state of many tensors is collected.",
        "call it before or after the compiled function",
    ),
    "class is defined in the function": Row(
        "`class` statements and generic functions (`def f[T]`) inside of a function run code that builds the class.",
        "define it at the top of the module",
    ),
    "attribute cannot be read": Row(
        "C code or an unusual descriptor answers for the attribute.",
        "read it before the compiled function, and pass what it gives",
    ),
    "attribute cannot be set": Row(
        "C code or an unusual descriptor stores or deletes the attribute.",
        "set it before or after the compiled function",
    ),
    "isinstance() runs code of a class": Row(
        "The class decides by a metaclass, a `__subclasshook__` or a `__class__` of its own.",
        "compare with type(), or call isinstance() before the compiled function",
    ),
    "special method gives an unusual result": Row(
        "`__bool__` or `__len__` gives something that is no plain number.",
        "return a bool or an int",
    ),
    "identity of equal constants": Row(
        "Whether two equal numbers or strings are one object is chance.",
        "compare immutable objects with ==",
    ),
    "object is copied": Row(
        "The class of the object says itself how it is copied, or it is a tensor, a set or another special object.",
        "copy it before the compiled function",
    ),
    "object cannot be rebuilt": Row(
        "A break must hand over an object that was made in the region, and it cannot be made again. The region ends "
        "before the object is made.",
        "make the object outside of the compiled function, or move the break before it",
    ),
    "value is known at run time only": Row(
        "Capture would need the very object, and it will be there only when the region runs.",
        "use it only within the function, or make it before",
    ),
    "result type is not supported": Row(
        "A function gives an object of a type that capture cannot follow, such as a memoryview or bytearray.",
        "call it before the compiled function, and pass what you need of its result",
    ),
    "object from outside is not supported": Row(
        "An object of this type can be used where it is made, but not be passed in.",
        "make it inside of the function",
    ),
    "operation is not supported": Row(
        "Calling, iterating, indexing or converting an object of this kind is not captured.",
        _OUTSIDE,
    ),
    "operator is not supported for these types": Row(
        "An operator between a tensor and something that torch knows nothing of, or between two unusual types.",
        "convert one of the two first",
    ),
    "key is not supported": Row(
        "A dict or set is asked for a nan, for an object that compares or hashes by code of its own, or by an object "
        "in a container from outside.",
        "use strings, numbers or enum members as keys",
    ),
    "order of a set is unknown": Row(
        "The order in which a set from outside gives its elements depends on all that was ever done to it.",
        "sort it, or use a list or dict",
    ),
    "container changes while it is iterated": Row(
        "What an iterator gives when its dict or set has changed meanwhile is an accident of its memory.",
        "iterate over a copy: list(container)",
    ),
    "weak reference is called": Row(
        "A weak reference is followed after the program let go of something: in plain Python its object may be dead.",
        "keep what it refers to until after the call",
    ),
    "comprehension variable is shared": Row(
        "A comprehension's variable has the name of one that a closure uses, so both share a cell (Python 3.12 and "
        "later), and something broke within the comprehension.",
        "give the comprehension's variable another name",
    ),
    "template string is made": Row(
        "Template strings (`t\"...\"`, Python 3.14) are not captured.",
        "use an f-string",
    ),
}  # fmt: skip


def hint_for(title: str) -> str:
    """What the user can do about a break with this title."""
    row = BREAKS.get(title)
    return "" if row is None else row.hint
