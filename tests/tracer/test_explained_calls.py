"""What `explain`, `scan` and `visualize` do with anything that can be called, and what they say of anything else."""

from __future__ import annotations

import asyncio
import functools
import json
import time
import warnings

import pytest
import torch

import tracer
from tracer.api import runtime
from tracer.errors import UserLine, told_where
from tracer.guard_values import describe

pytestmark = pytest.mark.usefixtures("installed_eager")

X = torch.arange(3.0) + 1


def doubled(x):
    y = x * 2
    yield y.relu()
    yield y.sin() + 1


def endless(x, ends):
    try:
        while True:
            x = x + 1
            yield x
    finally:
        ends.append(x)


async def awaited(x):
    await asyncio.sleep(0)
    return x.relu() + 1


async def stream(x):
    yield x + 1
    await asyncio.sleep(0)
    yield x.sin() * 2


class Callable:
    def __call__(self, x):
        yield x.relu()

    async def method(self, x):
        return x.relu()


class Streaming(torch.nn.Module):
    def forward(self, x):
        yield x.relu()
        yield x + 1


@pytest.fixture(autouse=True)
def nothing_is_left_unawaited():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


class TestExplain:
    @pytest.mark.parametrize("fn", [doubled, functools.partial(doubled), functools.partial(doubled, X)])
    def test_a_generator_is_run_to_its_end(self, fn):
        report = tracer.explain(fn)(*(() if getattr(fn, "args", ()) else (X,)))
        assert [torch.equal(*pair) for pair in zip(report.result, doubled(X), strict=True)] == [True, True]
        assert len(report.regions) == 2 and report.operators == 4
        assert [met.title for met in report.breaks] == ["yield hands out a value"] * 2
        assert report.how == "a generator, which was run to its end: 2 items" and report.how in str(report)
        assert report.how in report.to_html() and json.loads(json.dumps(report.to_dict()))["how"] == report.how

    def test_nothing_compiled_is_not_because_it_is_a_generator(self):
        def numbers(n):
            yield n

        report = tracer.explain(numbers)(3)
        assert report.result == [3] and not report.regions and report.how not in report.why_nothing()

    def test_a_generator_without_an_end_is_closed(self):
        ends: list[object] = []
        report = tracer.explain(endless)(X, ends)
        assert len(report.result) == 100 and len(ends) == 1 and report.how.startswith("a generator: 100 items")
        assert report.regions[0].hits >= 99

    def test_objects_and_models_whose_call_is_a_generator(self):
        report = tracer.explain(Callable())(X)
        assert len(report.result) == 1 and report.operators == 1
        report = tracer.explain(Streaming())(X)
        assert len(report.result) == 2 and sum(callee.operators for callee in report.callees) == 2

    @pytest.mark.parametrize("fn", [awaited, Callable().method])
    def test_a_coroutine_is_run(self, fn):
        report = tracer.explain(fn)(X)
        assert torch.equal(report.result, X.relu() + (fn is awaited)) and report.operators == 1 + (fn is awaited)
        assert report.how == "a coroutine, which was run to its end"

    def test_an_asynchronous_generator_is_run(self):
        report = tracer.explain(stream)(X)
        assert torch.equal(report.result[1], X.sin() * 2) and report.operators == 3

    def test_within_a_loop_that_runs_it_is_awaited(self):
        async def main():
            return await tracer.explain(awaited)(X), await tracer.explain(stream)(X), tracer.explain(doubled)(X)

        assert [report.operators for report in asyncio.run(main())] == [2, 3, 4]

    def test_what_it_raises_is_in_the_report(self):
        async def fails(x):
            y = x + 1
            raise ValueError(f"of mine {y.dim()}")

        def fails_later(x):
            yield x + 1
            raise KeyError("later")

        async def main():
            return await tracer.explain(fails)(X)

        assert str(tracer.explain(fails)(X).exception) == str(asyncio.run(main()).exception) == "of mine 1"
        report = tracer.explain(fails_later)(X)
        assert isinstance(report.exception, KeyError) and report.operators == 1 and report.result is None

    def test_switched_off_it_says_so(self, monkeypatch):
        monkeypatch.setenv("TORCHGRAFT", "0")
        report = tracer.explain(doubled)(X)
        assert len(report.result) == 2 and "TORCHGRAFT=0" in report.summary()
        report = tracer.explain(lambda x: x / 0)(1)
        assert isinstance(report.exception, ZeroDivisionError)

    @pytest.mark.parametrize("fn, name", [(len, "len"), (torch.relu, "torch.relu"), (functools.lru_cache(len), "len")])
    def test_what_has_no_bytecode_bears_its_own_name(self, fn, name):
        report = tracer.explain(fn)(X)
        assert report.function == name and report.filename == f"<call of {name}>"
        assert "_calling" not in str(report) and "api" not in str(report)

    def test_what_says_itself_how_it_runs_is_left_alone(self):
        def f(x):
            return x + 1

        for fn, why in ((tracer.disable(f), "it is disabled"), (torch.compiler.disable(f), "it is disabled"),
                        (torch.compile(f, backend="eager"), "torch.compile has it")):
            report = tracer.explain(fn)(X)
            assert torch.equal(report.result, X + 1) and not report.regions and why in report.summary()
            assert tracer.compile(fn) is fn


NOT_CALLED = pytest.mark.parametrize("wrong", [3, None, "f", X, property(len)])


@NOT_CALLED
@pytest.mark.parametrize("name", ["explain", "scan", "visualize", "explain_recompiles"])
def test_the_message_names_the_function_that_was_called(name, wrong, tmp_path):
    with pytest.raises(TypeError, match=f"^{name} takes a "):
        getattr(tracer, name)(wrong, **({"path": tmp_path / "page.html"} if name == "visualize" else {}))


@pytest.mark.parametrize("name", ["explain", "scan", "visualize"])
def test_a_class_is_not_called(name):
    with pytest.raises(TypeError, match=f"^{name} the methods of Callable, or its instances"):
        getattr(tracer, name)(Callable)


def test_a_scan_runs_generators_and_coroutines():
    report = tracer.scan(doubled)(X)
    assert len(report.captured) == 4 and report.capture_rate == 1 and len(report.result) == 2
    assert "run to its end: 2 items" in report.summary()
    assert len(tracer.scan(awaited)(X).captured) == 2 and len(tracer.scan(stream)(X).captured) == 3


def test_a_scan_takes_what_a_partial_has_already():
    def f(x, n, *, k):
        return (x + n) * k

    report = tracer.scan(functools.partial(functools.partial(f, k=3), n=2))(X)
    assert torch.equal(report.result, (X + 2) * 3) and len(report.captured) == 2
    assert torch.equal(tracer.scan(functools.partial(f, k=3))(X, 1, k=2).result, (X + 1) * 2)


def test_what_is_long_is_told_shortly():
    """Strings of millions of characters, and integers whose digits Python refuses to write."""
    for value, text in (("a" * 10**7, "'aaa"), (b"b" * 10**7, "b'bbb"), (10**5000, "int of 16610 bits"),
                        (-(10**5000), "int of 16610 bits")):
        found = describe(value)
        assert found.startswith(text) and len(found) <= 60
    assert describe("a" * 58) == repr("a" * 58) and describe("a" * 59).endswith("aaa...") and describe(-7) == "-7"

    def f(x, n):
        return x + (n > 3)

    report = tracer.explain(f)(X, 10**5000)
    assert torch.equal(report.result, X + 1) and report.operators == 1


def test_a_listener_of_a_long_capture_takes_time_in_proportion():
    """Each instruction looks at what is new, not at all that there is: 1500 nodes take little more than 3 times 500."""

    def f(x, n):
        for _ in range(n):
            x = x + 1
        return x

    class Counting(tracer.Listener):
        nodes = 0

        def node(self, added):
            self.nodes += 1

    seconds = {}
    for n in (500, 1500):
        with tracer.listen(Counting()) as _:
            listener = runtime.translator.maker.listeners[-1]
            began = time.process_time()
            tracer.explain(f)(X, n)
            seconds[n] = time.process_time() - began
        assert listener.nodes == n + 1
    assert seconds[1500] < 6 * seconds[500], seconds


def test_in_a_loop_that_runs_others_say_what_to_do(tmp_path):
    async def main(name, *args, **kwargs):
        call = getattr(tracer, name)(awaited, *args, **kwargs)
        call(X)

    with pytest.raises(RuntimeError, match="scan cannot run a coroutine: call it in a thread"):
        asyncio.run(main("scan"))
    with pytest.raises(RuntimeError, match="visualize cannot run a coroutine: call it in a thread"):
        asyncio.run(main("visualize", X, path=tmp_path / "page.html"))
    assert tracer.visualize(awaited, X, path=tmp_path / "page.html").exists()


def test_the_page_as_text():
    def f(x):
        return x + 1

    report = tracer.explain(f)(X)
    assert report.to_html().startswith("<!doctype html>") and report._repr_html_() in report.to_html()


# words that a user understands ----------------------------------------------------------------------------------------
def test_messages_about_sizes_name_no_symbols(tmp_path):
    def f(x, w):
        return (x.view(-1) @ w).relu()

    compiled = tracer.compile(f, dynamic=True)
    with pytest.raises(RuntimeError):
        compiled(torch.ones(3, 4), torch.ones(5, 6))
    with tracer.on_capture(lambda frame, ctx: reasons.append(ctx.reason)):
        reasons: list[str] = []
        report = tracer.explain(compiled)(torch.ones(4, 5), torch.ones(6, 7))
    said = " ".join([report.breaks[0].details, *reasons])
    assert "x.shape[0]" in said and "w.shape[0]" in said and "s1" not in said and "s3" not in said, said
    assert not [word for word in said.replace("*", " ").replace(",", " ").split() if word.strip("[]()")[:1] == "s"
                and word.strip("[]()")[1:].isdigit()]


def test_where_a_break_is_in_torch_the_users_line_comes_first():
    inner = UserLine(torch.nn.functional.__file__, 7, "mish")
    mine, library = UserLine("/home/mine.py", 3, "f"), UserLine("/lib/library.py", 5, "Layer.forward")
    assert told_where(()) == "" and told_where((inner,)) == str(inner)
    assert told_where((mine, library)) == str(library)
    assert told_where((mine, library, inner)) == f"{library} (in torch, at nn/functional.py:7 in mish)"


def test_what_torchs_modules_need_is_needed_by_the_users_line():
    linear = torch.nn.Linear(3, 2)

    def f(x):
        return torch.nn.functional.mish(linear(x)) + 1

    lines = {line for region in tracer.explain(f)(X).regions for _, line in region.guards if line}
    assert {line.filename for line in lines} == {__file__} and {line.function.split(".")[-1] for line in lines} == {"f"}
