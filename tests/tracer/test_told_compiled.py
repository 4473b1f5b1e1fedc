"""torch.compiler.is_compiling() is true while a program is captured, unless the way it then takes raises."""

from __future__ import annotations

import logging

import pytest
import torch

import tracer
from tests.support import CountingBackend, check, check_calls

pytestmark = pytest.mark.usefixtures("installed_eager")

x, mask = torch.randn(3, 4), torch.randn(1, 1)


def add(y, mask):
    return (y + mask).cos()


def wrong_when_compiled(x, mask):
    if torch.compiler.is_compiling():
        mask = mask.expand(3, 5)  # as transformers gives Nystromformer a mask of another size
    return add(x.sin(), mask)


def test_it_takes_the_way_of_a_plain_run(caplog):
    expected, backend = wrong_when_compiled(x, mask), CountingBackend()
    compiled = tracer.compile(wrong_when_compiled, backend=backend)
    with caplog.at_level(logging.INFO, "tracer.breaks"):
        assert torch.equal(compiled(x, mask), expected)
    assert backend.frame_count == 1 and backend.calls == 1
    [told] = [record.getMessage() for record in caplog.records]
    line = add.__code__.co_firstlineno + 1
    assert "is_compiling() is false here" in told and f":{line} in add" in told
    assert "is_compiling() is false here" in str(tracer.explain(compiled)(x, mask))


def test_and_so_does_all_that_it_calls():
    def f(x, mask):
        if not torch.compiler.is_compiling() and mask.sum() > 100:
            return x
        if torch.compiler.is_compiling():
            mask = mask.expand(3, 5)
        return add(x.sin(), mask)

    check(f, x, mask)


def test_a_program_that_raises_anyway_is_told_again():
    def f(x, other):
        x = x * 2 if torch.compiler.is_compiling() else x * 2 + 0
        return add(x, other)

    check_calls(f, (x, torch.ones(7)), (x, mask), (x, torch.ones(7)), (x, mask))
    compiled = tracer.compile(lambda x, other: f(x, other), backend="eager")
    with pytest.raises(RuntimeError):
        compiled(x, torch.ones(7))
    report = str(tracer.explain(compiled)(x, mask))
    assert "is false here" not in report and "+ 0" not in report


def test_with_fullgraph_too():
    def f(x, other):
        x = x * 2 if torch.compiler.is_compiling() else x * 3
        return add(x, other)

    backend = CountingBackend()
    compiled = tracer.compile(f, backend=backend, fullgraph=True)
    with pytest.raises(RuntimeError):
        compiled(x, torch.ones(7))
    assert torch.equal(compiled(x, mask), add(x * 2, mask)) and backend.frame_count == 1
    g = tracer.compile(wrong_when_compiled, backend=backend, fullgraph=True, inplace=False)
    assert torch.equal(g(x, mask), add(x.sin(), mask)) and backend.frame_count == 2


def test_an_exception_is_told_with_the_line_that_raised():
    def f(x):
        return add(x, torch.ones(7))

    report = tracer.explain(tracer.compile(f, backend="eager"))(x)
    line = add.__code__.co_firstlineno + 1
    assert isinstance(report.exception, RuntimeError) and f":{line} in add" in report.summary()


def test_whether_a_stream_is_captured_is_asked_at_each_call():
    def f(x):
        try:
            return x + 1 if torch.cuda.is_current_stream_capturing() else x - 1
        except RuntimeError:  # no driver
            return x * 2

    check(f, x)
    assert not tracer.counters()["breaks"]
