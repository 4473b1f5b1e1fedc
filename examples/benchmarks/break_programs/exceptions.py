"""`try` in all its forms, with exceptions raised by what cannot be captured, by operators and by callees."""

from __future__ import annotations

import json
import sys

import torch
from torch import Tensor

from .catalogue import ITEM, length, matrix, program, several, two


def texts(k: int) -> tuple[object, ...]:
    return ["1", "no number", "[2", "3", "{"][: length(k)], *two(k)


@program("raised by an opaque call; the handler computes", texts, breaks=2, iterations=length)
def opaque_raises(lines: list[str], x: Tensor, weight: Tensor) -> tuple[Tensor, int]:
    failed = 0
    for line in lines:
        x = torch.tanh(x @ weight)
        try:
            value = json.loads(line)
            x = x + torch.full_like(x, 0.25)
        except json.JSONDecodeError as error:
            failed += 1
            x = x - x.mean() * 0.5
            value = error.pos
            x = x.clamp(-0.5, 0.5)
        print("value", value)
        x = x.mul(2)
    return x.sigmoid(), failed


def misfits(k: int) -> tuple[object, ...]:
    return matrix(), [matrix(), torch.randn(48, 64), matrix()], matrix()


@program("raised by an operator", misfits, breaks=1, iterations=3)
def operator_raises(x: Tensor, weights: list[Tensor], spare: Tensor) -> tuple[Tensor, list[str]]:
    problems = []
    for weight in weights:
        x = torch.tanh(x) * 0.5
        try:
            x = x.sin() @ weight
            x = x + 0.1
        except RuntimeError as error:
            problems.append(type(error).__name__)
            x = x.cos() @ spare
            x = x - 0.1
        x = x / x.norm()
    return x.exp(), problems


class Diverged(Exception):
    pass


def checked(x: Tensor, limit: float) -> Tensor:
    """A callee that breaks, and then raises."""
    x = x * 2 - x.mean()
    largest = x.abs().amax().item()
    if largest > limit:
        raise Diverged(f"beyond {limit}")
    return x.sigmoid()


@program("raised by a callee behind its own break", two, breaks=3, iterations=4, itself=(ITEM,))
def callee_raises(x: Tensor, weight: Tensor) -> tuple[Tensor, int]:
    diverged = 0
    for i in range(4):
        x = x @ weight
        try:
            x = checked(x, 1000.0 if i % 2 else 0.001)
            x = x.sin()
        except Diverged:
            diverged += 1
            x = torch.tanh(x) * 0.1
            x = x.cos()
    return x.sum(0), diverged


def parsed(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise LookupError(f"no number: {text}") from error


@program("raise ... from in a callee, caught and looked at", texts, breaks=1, iterations=length)
def raise_from(lines: list[str], x: Tensor, weight: Tensor) -> tuple[Tensor, list[str]]:
    causes = []
    for line in lines:
        x = (x @ weight).tanh()
        try:
            print("parsed", parsed(line))
            x = x.add(1)
        except LookupError as error:
            causes.append(f"{error} because of {type(error.__cause__).__name__}")
            x = x.sub(x.amax())
        x = x.square()
    return x.softmax(0), causes


@program("leaves the function: raise ... from, with finally", lambda k: (*two(k), k % 2), breaks=2)
def leaves_function(x: Tensor, weight: Tensor, bad: int) -> Tensor:
    seen: list[str] = []
    try:
        x = torch.tanh(x @ weight) * 2
        number = int("12" if not bad else "twelve")
        x = x + x.mean()
    except ValueError as error:
        x = x.cos().sum(0)
        raise RuntimeError(f"shape {tuple(x.shape)}") from error
    finally:
        seen.append("finally")
        print("cleaned up", len(seen))
    return (x * number).sigmoid()


@program("bare raise, nested handlers", texts, breaks=2, iterations=length)
def bare_raise(lines: list[str], x: Tensor, weight: Tensor) -> tuple[Tensor, list[str]]:
    notes = []
    for line in lines:
        x = x.sin() @ weight
        try:
            try:
                x = x * 2
                notes.append(str(json.loads(line)))
            except ValueError:
                x = x.tanh() - 0.1
                notes.append("inner")
                raise
            finally:
                x = x + x.std() * 0.1
        except ValueError as error:
            notes.append(f"outer {error.args[0][:9]}")
            x = x.relu() + 0.2
    return x.abs(), notes


@program("try/except/else/finally in a loop, with continue and break", texts, breaks=2, iterations=length)
def try_else_finally(lines: list[str], x: Tensor, weight: Tensor) -> tuple[Tensor, list[str]]:
    trail = []
    for i, line in enumerate(lines):
        try:
            x = torch.relu(x @ weight)
            json.loads(line)
        except json.JSONDecodeError:
            x = x - x.mean(0)
            if i == 1:
                continue
            x = x.exp().clamp(max=3)
        else:
            x = x.sigmoid() * 2
            if i == 4:
                break
        finally:
            trail.append(line)
            x = x / (1 + x.abs().amax())
        print("passed", i)
    return x.log1p(), trail


def several_problems(line: str) -> list[Exception]:
    problems: list[Exception] = [] if line.isdigit() else [ValueError(line)]
    return [*problems, KeyError(line)] if len(line) > 1 else problems


@program("exception groups", texts, breaks=3, iterations=length)
def exception_groups(lines: list[str], x: Tensor, weight: Tensor) -> tuple[Tensor, list[str]]:
    caught = []
    for line in lines:
        x = torch.tanh(x @ weight)
        try:
            print("line", line)
            if problems := several_problems(line):
                raise ExceptionGroup("problems", problems)
            x = x + 1
        except* ValueError as group:
            caught.append(f"values {len(group.exceptions)}")
            x = x.sin() * 0.5
        except* KeyError as group:
            caught.append(f"keys {len(group.exceptions)}")
            x = x.cos() * 0.5
        x = x - x.mean()
    return x.exp(), caught


@program("sys.exc_info() and contexts in a handler", several, breaks=2, iterations=length, itself=(ITEM,))
def contexts(batches: list[Tensor], weight: Tensor) -> tuple[Tensor, list[str]]:
    found, total, seen = [], torch.zeros(64), dict.fromkeys("ab", 0)
    for batch in batches:
        try:
            score = (batch @ weight).tanh().mean()
            seen[f"{score.item() * 0:.0f}"] += 1
        except KeyError:
            total = total + batch.sin().sum(0) * 0.1
            kind = sys.exc_info()[0]
            try:
                raise TypeError("again")
            except TypeError as error:
                found.append(f"{type(error).__name__} in {type(error.__context__).__name__} {kind}")
                total = total.tanh() - total.mean()
    return total.erf(), found
