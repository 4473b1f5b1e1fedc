"""The scanner: instructions as they are, and, of a call, which were tensor operations and captured."""

from __future__ import annotations

import dis
import json

import pytest
import torch

import tracer
from rewriter.decode import decode
from rewriter.instructions import effect
from tracer.originals import is_grafted
from tracer.scanner.static import TENSORS_ANSWER

X = torch.arange(4.0).reshape(2, 2)


def plain(x, n):
    y = x @ x
    for i in range(n):
        y = torch.tanh(y) + i
    return y.sum()


def breaking(x):
    y = x * 2
    print(end="")
    z = y.mean().item()
    if (y > z).any():
        y = torch.cat([y, x]).T
    return helper(y) + 1


def helper(x):
    return torch.relu(x) * 3


def kinds(x):
    y = -x
    y[0] = 1
    a, b = x
    shape = x.shape[0]
    w = [v * 1 for v in x]
    return y.T, a + b, torch.ones(shape), isinstance(x, torch.Tensor), len(w), x


def rows(report, opname):
    return [row for row in report.instructions if row.opname == opname]


class TestWithoutRunning:
    def test_what_there_is_and_what_it_does_to_the_stack(self):
        report = tracer.scan(plain)
        decoded = decode(plain.__code__)
        assert len(report.instructions) == len(decoded.instructions)
        assert (report.function, report.line) == ("plain", plain.__code__.co_firstlineno)
        for row, instruction in zip(report.instructions, decoded.instructions, strict=True):
            assert (row.offset, row.opname) == (instruction.offset, instruction.opname)
            assert (row.taken, row.given) == effect(instruction.opname, instruction.arg)
            assert row.line == instruction.positions[0]
        matmul = rows(report, "BINARY_OP")[0]
        assert (matmul.arg, matmul.taken, matmul.given, matmul.effect, matmul.depth) == ("@", 2, 1, -1, 2)
        assert matmul.line == plain.__code__.co_firstlineno + 1

    @pytest.mark.parametrize("function", [plain, breaking, kinds, tracer.scan, dis.dis])
    def test_depths_follow_from_effects(self, function):
        """Along straight code the depth grows by the effect of each instruction."""
        report = tracer.scan(function)
        jumps = {"JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"}
        checked = 0
        for row, after in zip(report.instructions, report.instructions[1:], strict=False):
            if row.opname not in jumps and row.depth is not None and after.depth is not None:
                assert row.depth + row.effect == after.depth, (row, after)
                checked += 1
        assert checked > 10

    def test_offsets_are_those_of_dis(self):
        of_dis = {i.offset: i for i in dis.get_instructions(plain.__code__)}
        for row in tracer.scan(plain).instructions:
            assert row.offset in of_dis
        [load] = [i for i in of_dis.values() if i.opname.startswith("BINARY_OP") and i.argrepr == "@"]
        assert load.offset == rows(tracer.scan(plain), "BINARY_OP")[0].offset

    def test_which_may_be_tensor_operations(self):
        report = tracer.scan(breaking)
        assert {row.opname for row in report.candidates} <= TENSORS_ANSWER
        assert {"BINARY_OP", "CALL", "COMPARE_OP", "LOAD_ATTR", "TO_BOOL"} <= {row.opname for row in report.candidates}
        assert "may be a tensor operation" in str(report) and report.capture_rate is None and not report.captured
        assert report.summary().endswith(f"{len(report.candidates)} may be tensor operations")

    def test_nothing_runs(self):
        def never(x):
            raise AssertionError("it ran")

        assert rows(tracer.scan(never), "RAISE_VARARGS")[0].given == 0

    def test_what_can_be_scanned(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                return x + 1

        class Callable:
            def __call__(self, x):
                return x + 1

            @staticmethod
            def static(x):
                return x + 1

        def generator(x):
            yield x

        net = Net()
        assert tracer.scan(net).function.endswith("Net.forward")
        assert torch.equal(tracer.scan(net)(X).result, X + 1)
        assert torch.equal(tracer.scan(net.forward)(X).result, X + 1)
        assert torch.equal(tracer.scan(Callable())(X).result, X + 1)
        assert torch.equal(tracer.scan(Callable.__dict__["static"])(X).result, X + 1)
        assert tracer.scan(generator).candidates == ()
        assert tracer.scan(generator)(X).result == [X]
        with pytest.raises(TypeError, match="not the class"):
            tracer.scan(Net)
        with pytest.raises(TypeError, match="scan takes a Python function"):
            tracer.scan(len)
        with pytest.raises(TypeError, match="this report is of a call"):
            tracer.scan(plain)(X, 1)(X, 1)

    def test_a_compiled_function_is_read_as_its_author_wrote_it(self, installed_eager):
        def f(x):
            return x + 1

        expected = tracer.scan(f).instructions
        tracer.compile(f)
        f(X), f(X)
        assert is_grafted(f.__code__) and tracer.scan(f).instructions == expected
        assert tracer.scan(f)(X).capture_rate == 1


class TestOfACall:
    def test_all_captured(self):
        report = tracer.scan(plain)(X, 3)
        assert torch.equal(report.result, plain(X, 3)) and report.called and not report.breaks
        assert report.capture_rate == 1
        found = {(row.opname, row.arg): row.nodes for row in report.captured}
        assert found[("BINARY_OP", "@")] == ("matmul",)
        assert found[("CALL", "1")] == ("tanh", "tanh_1", "tanh_2")  # the loop is unrolled
        assert found[("BINARY_OP", "+")] == ("add", "add_1", "add_2")
        [loop] = [row for row in rows(report, "BINARY_OP") if row.arg == "+"]
        assert (loop.runs, loop.operands, loop.result) == (3, ("Tensor", "int"), "Tensor")
        assert [row.runs for row in rows(report, "GET_ITER")] == [1] and not rows(report, "GET_ITER")[0].is_tensor

    def test_what_is_not_captured_and_why(self):
        report = tracer.scan(breaking)(X)
        assert torch.equal(report.result, breaking(X))
        told = {row.why for row in report.tensor_operations if row.outcome != "captured"}
        assert told == {"tensor value is read: .item()", "branch on a tensor: tensor any_1 []"}
        assert [row.outcome for row in rows(report, "TO_BOOL")] == ["break"]
        printed = [row for row in rows(report, "CALL") + rows(report, "CALL_KW") if "print()" in row.why]
        assert len(printed) == 1 and not printed[0].is_tensor and printed[0].outcome == "break"
        nodes = {node for row in report.captured for node in row.nodes}
        assert {"mul", "mean", "gt", "any_1", "cat", "relu", "add"} <= nodes
        assert 0.7 < report.capture_rate < 1
        assert len(report.breaks) == 3 and all(f"{__file__}:" in text and "Hint: " in text for text in report.breaks)

    def test_a_call_that_is_read_into_has_all_its_nodes(self):
        report = tracer.scan(lambda x: helper(x))(X)
        [row] = report.captured
        assert row.nodes == ("relu", "mul")

    def test_what_counts_as_a_tensor_operation(self):
        report = tracer.scan(kinds)(X.clone())
        operations = {(row.opname, row.arg) for row in report.tensor_operations}
        assert {("UNARY_NEGATIVE", ""), ("STORE_SUBSCR", ""), ("UNPACK_SEQUENCE", "2"), ("LOAD_ATTR", "T"),
                ("BINARY_OP", "+")} <= operations
        assert ("LOAD_ATTR", "shape") not in operations and ("BINARY_SUBSCR", "") not in operations
        calls = [row for row in rows(report, "CALL") if row.is_tensor]
        assert [row.nodes for row in calls] == [("ones",)]  # not isinstance, not len

    def test_a_value_is_looked_at_the_last_time_it_is_there(self):
        def loop(items):
            total = 0
            for item in items:
                total = total + item
            return total

        [row] = rows(tracer.scan(loop)([1, 2]), "BINARY_OP")
        assert not row.is_tensor and row.operands == ("int", "int")
        [row] = rows(tracer.scan(loop)([X, 2]), "BINARY_OP")
        assert row.is_tensor and row.runs == 2

    def test_a_real_loop_is_captured_in_its_body(self):
        def loop(x, n):
            for _ in range(n):
                x = torch.sin(x)
                print(end="")
            return x

        report = tracer.scan(loop)(X, 5)
        [row] = report.captured
        assert row.runs == 5 and row.nodes == ("sin",) and report.capture_rate == 1

    def test_what_raises(self):
        def fails(x):
            y = x + 1
            return y @ torch.ones(7)

        report = tracer.scan(fails)(X)
        assert isinstance(report.exception, RuntimeError) and report.result is None
        outcomes = {row.arg: row.outcome for row in report.tensor_operations if row.opname == "BINARY_OP"}
        assert outcomes["@"] != "captured" and "the call raised RuntimeError" in report.summary()

    def test_handlers_and_with(self):
        def guarded(x):
            try:
                with torch.no_grad():
                    y = x * 2
                raise ValueError
            except ValueError:
                y = y + 1
            return y

        report = tracer.scan(guarded)(X)
        assert torch.equal(report.result, X * 2 + 1)
        assert {node for row in report.captured for node in row.nodes} >= {"mul"}
        assert all(row.runs == 1 for row in report.tensor_operations if row.opname == "BINARY_OP")

    def test_closures_and_defaults(self):
        k, calls = 3, []

        def inner(x, n=2):
            calls.append(1)
            return x * k * n

        report = tracer.scan(inner)(X)
        assert torch.equal(report.result, X * 6) and calls == [1]
        assert report.capture_rate == 1

    def test_nothing_is_left_behind(self):
        code = plain.__code__
        tracer.scan(plain)(X, 2)
        assert plain.__code__ is code and not tracer.installed()
        assert not tracer.api.runtime.translator.lock.is_mine

    def test_switched_off_only_types_are_told(self, monkeypatch):
        monkeypatch.setenv("TORCHGRAFT", "0")
        report = tracer.scan(plain)(X, 2)
        assert report.tensor_operations and not report.captured and report.capture_rate == 0

    def test_what_goes_wrong_inside_is_no_business_of_the_program(self, monkeypatch, caplog):
        monkeypatch.setenv("TORCHGRAFT_STRICT", "0")
        monkeypatch.setattr("tracer.scanner.probing.capture", lambda request: 1 / 0)
        report = tracer.scan(plain)(X, 2)
        assert torch.equal(report.result, plain(X, 2)) and "ZeroDivisionError" in caplog.text

    def test_as_data(self):
        data = json.loads(json.dumps(tracer.scan(breaking)(X).to_dict()))
        assert data["function"] == "breaking" and data["number_of_instructions"] == len(data["instructions"])
        assert all({"offset", "opname", "nodes"} == set(found) for found in data["captured"])
        assert data["capture_rate"] == pytest.approx(len(data["captured"]) / data["tensor_operations"])

    def test_what_capture_says_is_what_is_compiled(self, installed_eager):
        """The scan's regions are those of a real compile: the same operators, the same breaks."""
        for function, arguments in ((plain, (X, 3)), (breaking, (X,))):
            scanned = tracer.scan(function)(*arguments)
            explained = tracer.explain(function)(*arguments)
            nodes = sum(len(row.nodes) for row in scanned.captured)
            # a T is an attribute to FX
            assert nodes == explained.operators or nodes == sum(region.operators for region in explained.regions)
            assert len(scanned.breaks) == len(explained.breaks)
