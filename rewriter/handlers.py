"""What the handlers of a code object are: `except` and `finally` of the author's, or CPython's own tidying up."""

from __future__ import annotations

from .decode import Decoded

#: What CPython itself puts into handlers, to forget an exception's name or to restore a comprehension's variables.
_TIDYING = frozenset(
    "PUSH_EXC_INFO POP_EXCEPT COPY SWAP POP_TOP LOAD_CONST STORE_FAST DELETE_FAST STORE_DEREF DELETE_DEREF LIST_APPEND "
    "NOP".split()
)
_RAISES_AGAIN = frozenset(["RERAISE", "PREP_RERAISE_STAR", "STOPITERATION_ERROR", "CLEANUP_THROW"])


def work_of(decoded: Decoded, target: int) -> str:
    """The first instruction of a handler that does more than tidy up, by name; "" if it raises again what came."""
    for instruction in decoded.instructions[target : target + 16]:
        if instruction.opname in _RAISES_AGAIN:
            return ""
        if instruction.opname not in _TIDYING:
            return instruction.opname
    return "more"


def only_tidies(decoded: Decoded, target: int) -> bool:
    """Is it a handler without code of the author's?"""
    return not work_of(decoded, target)


def catching_handler(decoded: Decoded, index: int) -> int | None:
    """Where an exception at this instruction goes, if that is an `except` or `finally` of the author's.

    The end of a `with` counts as one that lets the exception go on.
    """
    handler = decoded.handler_at(index)
    while handler is not None and work_of(decoded, handler.target) in ("", "WITH_EXCEPT_START"):
        handler = decoded.handler_at(handler.target)
    return None if handler is None else handler.target


def names_caught(decoded: Decoded, target: int) -> list[str] | None:
    """The global names in a handler's `except` clauses (of one name each); None for any other handler.

    An exception that none of them catches is raised again, and nothing else is done.
    """
    names = []
    index = target
    if decoded.instructions[index].opname != "PUSH_EXC_INFO":
        return None
    index += 1
    while work_of(decoded, index):
        clause = [i for i in decoded.instructions[index : index + 4] if i.opname != "TO_BOOL"][:3]
        if [i.opname for i in clause] != ["LOAD_GLOBAL", "CHECK_EXC_MATCH", "POP_JUMP_IF_FALSE"]:
            return None
        names.append(clause[0].arg)
        assert clause[2].target is not None
        index = clause[2].target
    return names
