"""What a scan found, as data and as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

#: what may come of an instruction that is a tensor operation, in a call
CAPTURED, BROKE, PLAIN = "captured", "break", "plain"


@dataclass(frozen=True)
class ScannedInstruction:
    """A canonical instruction (the same on every Python, see ARCHITECTURE.md). offset: in the function's bytecode.

    taken, given: how many objects it takes from the stack and puts on it.  depth: of the stack before it; None: it is
    never reached.  may_be_tensor: is it one of those that tensors answer?

    In a call: runs, how often it was reached there (None: no probe can stand at it).  operands: the types of what it
    took, the last time.  result: the type of what it gave.  is_tensor: did it take or make a tensor?  outcome:
    "captured", "break" (a region ends here) or "plain", and why.  nodes: of the graph, by it or by what it called.
    """

    index: int
    offset: int
    line: int | None
    opname: str
    arg: str
    taken: int
    given: int
    depth: int | None
    may_be_tensor: bool
    runs: int | None = None
    operands: tuple[str, ...] = ()
    result: str = ""
    is_tensor: bool = False
    outcome: str = ""
    why: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def effect(self) -> int:
        """How much the stack grows."""
        return self.given - self.taken

    def __str__(self) -> str:
        line = "" if self.line is None else str(self.line)
        text = f"{line:>5} {self.offset:>5}  {self.opname:<20} {self.arg:<24.24} {self.effect:+d}"
        if self.depth is None:
            return f"{text}  never reached"
        if self.outcome:
            said = f"{self.outcome}: {', '.join(self.nodes)}" if self.nodes else self.outcome
            return f"{text}  {said}" + (f" ({self.why})" if self.why else "") + f"  [{', '.join(self.operands)}]"
        return f"{text}  may be a tensor operation" if self.may_be_tensor and self.runs is None else text


@dataclass(frozen=True)
class ScanReport:
    """A function's instructions. Of a scan without a call, it can be called itself: `scan(fn)(*args)`.

    instructions: all of them.  result, exception: of the call.  breaks: why regions ended, each with its line.
    how: what the call was, if it was run to its end.
    """

    function: str
    filename: str
    line: int
    instructions: tuple[ScannedInstruction, ...]
    called: bool = False
    result: Any = None
    exception: BaseException | None = None
    breaks: tuple[str, ...] = ()
    how: str = ""
    call: Callable[..., ScanReport] | None = field(default=None, repr=False, compare=False)

    def __call__(self, *args: Any, **kwargs: Any) -> ScanReport:
        """Call the function with these arguments, and tell what each instruction was."""
        if self.call is None:
            raise TypeError("this report is of a call: scan the function again, tracer.scan(fn)(*args)")
        return self.call(*args, **kwargs)

    @property
    def candidates(self) -> tuple[ScannedInstruction, ...]:
        """Those that may be tensor operations, by opcode."""
        return tuple(i for i in self.instructions if i.may_be_tensor)

    @property
    def tensor_operations(self) -> tuple[ScannedInstruction, ...]:
        """Those that were, by the types on the stack."""
        return tuple(i for i in self.instructions if i.is_tensor)

    @property
    def captured(self) -> tuple[ScannedInstruction, ...]:
        """The tensor operations that are in a graph; `offset` says where each stands."""
        return tuple(i for i in self.tensor_operations if i.outcome == CAPTURED)

    @property
    def capture_rate(self) -> float | None:
        """What part of the tensor operations was captured; None where there were none."""
        operations = self.tensor_operations
        return len(self.captured) / len(operations) if operations else None

    def to_dict(self) -> dict[str, Any]:
        """For JSON. What the call gave is only named by its type."""
        rows = [asdict(instruction) for instruction in self.instructions]
        return {
            "function": self.function, "filename": self.filename, "line": self.line, "called": self.called,
            "result": type(self.result).__name__ if self.called else None,
            "exception": None if self.exception is None else f"{type(self.exception).__name__}: {self.exception}",
            "number_of_instructions": len(self.instructions), "candidates": len(self.candidates),
            "tensor_operations": len(self.tensor_operations),
            "captured": [{"offset": i.offset, "opname": i.opname, "nodes": list(i.nodes)} for i in self.captured],
            "capture_rate": self.capture_rate, "how": self.how, "breaks": list(self.breaks), "instructions": rows,
        }  # fmt: skip

    def summary(self) -> str:
        """A line or a few: the numbers, what was captured, and what was not and why."""
        head = f"{self.function} ({self.filename}:{self.line}): {len(self.instructions)} instructions, "
        if not self.called:
            return f"{head}{len(self.candidates)} may be tensor operations"
        rate = self.capture_rate
        lines = [f"{head}{len(self.tensor_operations)} tensor operations, {len(self.captured)} captured"
                 + ("" if rate is None else f" ({rate:.0%})")]
        lines += [f"  {self.how}"] if self.how else []
        if self.exception is not None:
            lines.append(f"  the call raised {type(self.exception).__name__}: {self.exception}")
        lines += [f"  captured at {i.offset}: {i.opname} {i.arg}".rstrip() + f" -> {', '.join(i.nodes)}"
                  for i in self.captured]
        lines += [f"  not captured at {i.offset}: {i.opname} {i.arg}".rstrip() + f": {i.why}"
                  for i in self.tensor_operations if i.outcome != CAPTURED]
        lines += [f"  break: {text}" for text in self.breaks]
        return "\n".join(lines)

    def __str__(self) -> str:
        return "\n".join([self.summary(), " line offset  instruction", *map(str, self.instructions)])
