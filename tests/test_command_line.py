"""The command line, in a process of its own where that matters; and programs that `run` runs unchanged."""

from __future__ import annotations

import importlib.util
import json
import os
import py_compile
import re
import signal
import statistics
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import torch

import tracer
from tracer.command_line import main
from tracer.command_line.doctor import doctor
from tracer.command_line.parsing import parse

ROOT = Path(__file__).resolve().parents[1]

SCRIPT = """
import pickle
import sys
import torch
import helper

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))

def main(steps):
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(steps):
        loss = helper.mean_of_squares(net(torch.randn(2, 4)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item())

if __name__ == "__main__":
    print(sys.argv, __name__, __file__, __spec__, sys.path[0], sys.modules["__main__"].Net is Net)
    assert type(pickle.loads(pickle.dumps(Net()))) is Net
    main(int(sys.argv[1]))
    sys.exit(int(sys.argv[2]))
"""
HELPER = "def mean_of_squares(x):\n    return (x * x).mean()\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


@pytest.fixture(autouse=True)
def as_it_was(tmp_path):
    """What a command does to this process is undone."""
    tracer.uninstall()
    tracer.reset()
    path, argv, modules = list(sys.path), list(sys.argv), dict(sys.modules)
    yield
    tracer.uninstall()
    tracer.set_logs()
    sys.path[:], sys.argv[:] = path, argv
    for name in ("__main__", "__mp_main__"):
        if name in modules:
            sys.modules[name] = modules[name]
    for name in set(sys.modules) - set(modules):
        if str(vars(sys.modules[name]).get("__file__")).startswith(str(tmp_path)):
            del sys.modules[name]


def take_interrupts():
    """What is begun in the background may have been told to ignore them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def python(*arguments, cwd, timeout=300, input=None, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, capture_output=True, encoding="utf-8", timeout=timeout,
        input=input,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}, check=False,
        preexec_fn=take_interrupts,
    )  # fmt: skip


class TestRun:
    def test_an_unchanged_program(self, folder):
        plain = python("script.py", 5, 3, "--flag", cwd=folder)
        run = python("-m", "tracer", "run", "--backend", "eager", "--json", "s.json", "script.py", 5, 3, "--flag",
                     cwd=folder)
        assert run.stdout == plain.stdout and plain.stdout.count("loss") == 5
        assert (plain.returncode, run.returncode) == (3, 3), run.stderr
        told = run.stderr
        assert re.search(r"torchgraft: script.py ran [\d.]+ s", told)
        assert "/script.py:" in told and "Net.forward (" in told and "4 runs" in told
        for part in ("compiled ", "broke ", "recompiled ", "saved ", "ran plain ", "discovered "):
            assert part in told
        data = json.loads((folder / "s.json").read_text())
        assert data["program"] == "script.py" and data["counters"]["errors"] == 0
        assert {f["function"] for f in data["functions"]} == {"Net.forward", "mean_of_squares"}
        assert {f["function"] for f in data["discovered"]["chosen"]} == {"Net.forward", "mean_of_squares"}

    def test_a_module_or_package(self, folder, capsys, monkeypatch):
        (folder / "package").mkdir()
        (folder / "package" / "__init__.py").touch()
        (folder / "package" / "__main__.py").write_text(
            "from . import part\nimport sys\n"
            "print(__package__, __name__, __spec__.name, sys.argv, sys.path[0], part.f())\n")
        (folder / "package" / "part.py").write_text("def f():\n    return 'here'\n")
        plain = python("-m", "package", "a", "-b", cwd=folder)
        monkeypatch.chdir(folder)
        assert main(["run", "--quiet", "-m", "package", "a", "-b"]) == 0
        assert capsys.readouterr().out == plain.stdout and "package.__main__" in plain.stdout

    def test_an_exception_is_shown_as_python_shows_it(self, folder):
        (folder / "fails.py").write_text("import torch\ndef f(x):\n    return x @ x\nf(torch.ones(2, 3))\n")
        plain = python("fails.py", cwd=folder)
        run = python("-m", "tracer", "run", "--quiet", "fails.py", cwd=folder)
        assert (run.returncode, run.stdout) == (plain.returncode, plain.stdout) == (1, "")
        told = run.stderr[run.stderr.index("Traceback") :]  # on Python 3.11 what discovery costs is told before it
        assert told == plain.stderr

    def test_a_program_that_is_no_python(self, folder, capsys):
        (folder / "wrong.py").write_text("def f(:\n")
        assert main(["run", str(folder / "wrong.py")]) == 1
        told = capsys.readouterr().err
        assert told == python("wrong.py", cwd=folder).stderr and "SyntaxError" in told

    @pytest.mark.parametrize("text, code, told", [
        ("import sys; sys.exit()", 0, ""), ("import sys; sys.exit('told')", 1, "told\n"),
        ("raise SystemExit(7)", 7, ""), ("1 / 0", 1, None),
    ])
    def test_exit_codes(self, folder, capsys, text, code, told):
        (folder / "ends.py").write_text(text)
        assert main(["run", "--quiet", "--no-discover", str(folder / "ends.py")]) == code
        assert told is None or capsys.readouterr().err == told

    def test_a_summary_that_cannot_be_written(self, folder, capsys):
        (folder / "ends.py").write_text("raise SystemExit(7)")
        assert main(["run", "--quiet", "--json", str(folder / "no" / "s.json"), str(folder / "ends.py")]) == 7
        told = capsys.readouterr().err
        assert told.startswith("torchgraft: cannot write ") and len(told.splitlines()) == 1

    def test_processes_that_send_the_programs_own_classes(self, folder):
        (folder / "sends.py").write_text(textwrap.dedent("""
            import multiprocessing

            class Item:
                pass

            def work(i):
                return Item()

            if __name__ == "__main__":
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    print(type(pool.apply_async(work, (1,)).get(60)) is Item)
        """))
        run = python("-m", "tracer", "run", "--quiet", "sends.py", cwd=folder)
        assert run.stdout == "True\n", run.stderr

    def test_each_way_to_name_a_program(self, folder):
        """A folder, a zip file, a module, compiled code, a text, standard input: each sees what it would see."""
        show = ("import sys\nprint(sorted((k, str(v)) for k, v in globals().items() if k not in ('__spec__',"
                " '__loader__', '__builtins__')), sys.argv, sys.path[0], type(__loader__), type(__spec__))\n")
        (folder / "dir").mkdir()
        (folder / "dir" / "__main__.py").write_text(show)
        (folder / "show.py").write_text(show)
        py_compile.compile(str(folder / "show.py"), str(folder / "done.pyc"))
        with zipfile.ZipFile(folder / "all.zip", "w") as file:
            file.write(folder / "show.py", "__main__.py")
        for program in (["dir"], ["all.zip"], ["done.pyc"], ["-m", "show"], ["-c", show], ["-"]):
            plain = python(*program, "a", "-m", cwd=folder, input=show)
            run = python("-m", "tracer", "run", "--quiet", "--no-discover", *program, "a", "-m", cwd=folder, input=show)
            assert plain.stdout.count("-m") and (run.stdout, run.stderr) == (plain.stdout, plain.stderr), program

    def test_what_a_package_raises_when_it_is_imported(self, folder):
        for name, text, code in (("bad", "raise ValueError('of mine')", 1), ("missing", "import no_such_thing", 1),
                                 ("ends", "raise SystemExit(7)", 7)):
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(text)
            (folder / name / "__main__.py").touch()
            run = python("-m", "tracer", "run", "-m", name, cwd=folder)
            assert run.returncode == code and "torchgraft" not in run.stderr, run.stderr
            assert "runpy" not in run.stderr and "command_line" not in run.stderr
            assert ("Traceback" in run.stderr) == (code == 1)

    @pytest.mark.parametrize("hook, code, told", [
        ("raise RuntimeError('of the hook')", 1, "Error in sys.excepthook:"), ("sys.exit(11)", 11, ""),
        ("print('mine', len(traceback.extract_tb(tb)), file=sys.stderr)", 1, "mine 1\n"),
    ])
    def test_the_programs_own_hook_for_exceptions(self, folder, hook, code, told):
        (folder / "ends.py").write_text(
            f"import sys, traceback\ndef hook(t, e, tb):\n    {hook}\nsys.excepthook = hook\n1 / 0\n")
        plain = python("ends.py", cwd=folder)
        run = python("-m", "tracer", "run", "--quiet", "--no-discover", "ends.py", cwd=folder)
        assert (run.returncode, run.stderr) == (plain.returncode, plain.stderr) and run.returncode == code
        assert run.stderr.startswith(told)

    def test_the_summary_comes_last_and_once(self, folder):
        """Behind the traceback, threads that go on, and what the program does at its exit; not in a forked child."""
        (folder / "ends.py").write_text(textwrap.dedent("""
            import atexit, os, sys, threading, time
            atexit.register(print, "at exit", file=sys.stderr)
            def late():
                time.sleep(0.5)
                print("thread", file=sys.stderr)
            if not (child := os.fork()):
                sys.exit(3)
            os.waitpid(child, 0)
            threading.Thread(target=late).start()
            1 / 0
        """))
        run = python("-m", "tracer", "run", "ends.py", cwd=folder)
        order = [run.stderr.find(text) for text in ("ZeroDivisionError", "thread\n", "torchgraft: ends.py ran")]
        assert run.returncode == 1 and -1 not in order and order == sorted(order), run.stderr
        assert run.stderr.count("torchgraft: ") == 1
        assert run.stderr.count("at exit") == 2 and run.stderr.rindex("at exit") < order[2]

    def test_an_interrupt_lets_the_program_end_in_order(self, folder):
        (folder / "ends.py").write_text("import atexit\natexit.register(print, 'at exit')\nraise KeyboardInterrupt")
        run = python("-m", "tracer", "run", "ends.py", cwd=folder)
        assert run.returncode == python("ends.py", cwd=folder).returncode == -2
        assert run.stdout == "at exit\n" and run.stderr.count("Traceback") == 1
        assert run.stderr.index("KeyboardInterrupt") < run.stderr.index("torchgraft: ends.py ran")

    @pytest.mark.parametrize("command", ["run", "doctor", "breaks", "scan"])
    def test_words_too_many_show_the_commands_own_usage(self, capsys, command):
        target = ["mine:f"] if command == "scan" else []
        with pytest.raises(SystemExit, match="2"):
            main([command, *target, "--nothing", *([] if command == "run" else ["extra"])])
        told = capsys.readouterr().err
        assert told.startswith(f"usage: torchgraft {command} ") and "unrecognized arguments: --nothing" in told

    def test_a_module_that_is_named_and_not_there(self, folder, capsys):
        (folder / "ends.py").write_text("")
        assert main(["run", "--discover", "no_such_module", str(folder / "ends.py")]) == 0
        assert "module no_such_module was named, and never imported" in capsys.readouterr().err
        assert "not imported (yet): no_such_module" in str(tracer.discovered())

    def test_an_interrupt_ends_it_as_it_ends_python(self, folder):
        (folder / "ends.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)")
        run = python("-m", "tracer", "run", "--quiet", "ends.py", cwd=folder)
        assert run.returncode == python("ends.py", cwd=folder).returncode == -2
        assert run.stderr.splitlines()[-1] == "KeyboardInterrupt" and "command_line" not in run.stderr

    def test_what_is_excluded_and_what_is_named(self, folder, capsys, monkeypatch):
        monkeypatch.chdir(folder)
        run = ["run", "--backend", "eager"]
        assert main([*run, "--exclude", "helper.*", "script.py", "4", "5"]) == 5
        told = capsys.readouterr().err
        assert "Net.forward" in told and "mean_of_squares" not in told
        tracer.uninstall()
        assert main([*run, "--discover", "helper", "--exclude", "*.forward", "script.py", "4", "5"]) == 5
        told = capsys.readouterr().err
        assert "Net.forward" not in told and "mean_of_squares" in told
        tracer.uninstall()
        assert main([*run, "--no-discover", "script.py", "4", "0"]) == 0
        told = capsys.readouterr().err
        assert "compiled    nothing" in told and "discovered" not in told

    def test_switched_off(self, folder, capsys, monkeypatch):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TORCHGRAFT", "0")
        assert main(["run", "script.py", "2", "0"]) == 0
        assert "TORCHGRAFT=0" in capsys.readouterr().err

    def test_a_program_that_uninstalls(self, folder, capsys):
        (folder / "ends.py").write_text("import tracer\ntracer.uninstall()")
        assert main(["run", str(folder / "ends.py")]) == 0
        assert "has called tracer.uninstall()" in capsys.readouterr().err

    def test_logs(self, folder, capsys, monkeypatch):
        monkeypatch.chdir(folder)
        assert main(["run", "--backend", "eager", "--quiet", "--logs", "discovery", "script.py", "2", "0"]) == 0
        assert "torchgraft tracer.discovery: Net.forward (" in capsys.readouterr().err

    @pytest.mark.parametrize("arguments, told", [
        ((), "name a program"), (("missing.py",), "cannot read 'missing.py': No such file"),
        (("-m", "no_such_module"), "there is no module 'no_such_module'"), ((".",), "there is no __main__ in '.'"),
        (("--backend", "nothing", "script.py"), "no backend is named 'nothing'"),
        (("--discover", "torch", "script.py"), "never discovered"),
        (("--logs", "gards", "script.py"), "no such log topic"),
    ])
    def test_questions_that_are_wrong(self, folder, monkeypatch, capsys, arguments, told):
        monkeypatch.chdir(folder)
        assert main(["run", *arguments]) == 2
        assert told in capsys.readouterr().err

    def test_what_stands_behind_the_program_is_its_own(self):
        for given, program, named in (
            (["run", "--backend", "eager", "a.py", "--backend", "x", "-m"], ["a.py", "--backend", "x", "-m"], ""),
            (["run", "--quiet", "-m", "a.b", "--quiet", "c.py"], ["a.b", "--quiet", "c.py"], "-m"),
            (["run", "-ma.b"], ["a.b"], "-m"),
            (["run", "--json=x", "a.py"], ["a.py"], ""),
            (["run", "--quiet", "-c", "print(1)", "-c"], ["print(1)", "-c"], "-c"),
            (["run", "-cprint(1)", "--quiet"], ["print(1)", "--quiet"], "-c"),
            (["run", "--backend", "-", "-", "-m"], ["-", "-m"], "-"),
        ):
            found = parse(given)
            assert (found.program, found.named) == (program, named)
        assert parse(["run", "--backend", "eager", "a.py", "--backend", "x"]).backend == "eager"


MINE = """
import torch

def scaled(x, n=2):
    y = torch.tanh(x) * n
    print("here")
    return y + 1

def fails(x):
    return torch.ones(2) @ x

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

INPUTS = (torch.ones(3),)
NAMED = {"x": torch.ones(3), "n": 5}

def made():
    return [torch.ones(3), 4]
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestExplain:
    def test_a_function(self, mine, capsys):
        assert main(["explain", "mine:scaled", "--args", "torch.ones(3), n=3", "--backend", "eager"]) == 0
        told = capsys.readouterr().out
        assert "scaled (" in told and "def slot(" in told and "print()" in told

    def test_more_calls_and_a_summary(self, mine, capsys):
        assert main(["explain", "mine.py:scaled", "--args", "torch.ones(3)", "--backend", "eager", "--calls", "3",
                     "--summary"]) == 0
        told = capsys.readouterr().out
        assert told.count("here") == 3 and "2 regions" in told and "def slot(" not in told

    @pytest.mark.parametrize("inputs, n", [("mine:INPUTS", 2), ("mine.py:NAMED", 5), ("mine:made", 4)])
    def test_arguments_that_an_object_holds(self, mine, capsys, inputs, n):
        assert main(["explain", "mine:scaled", "--inputs", inputs, "--backend", "eager"]) == 0
        assert f"n == {n}" in capsys.readouterr().out

    def test_as_a_page_and_as_data(self, mine, capsys):
        arguments = ["explain", "mine:Net()", "--args", "torch.ones(3)", "--backend", "eager"]
        assert main([*arguments, "--html", "out.html", "--json", "out.json"]) == 0
        assert "<html" in (mine / "out.html").read_text() and not capsys.readouterr().out
        assert json.loads((mine / "out.json").read_text())["operators"] == 1
        assert main([*arguments, "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out)["function"].startswith("Net")

    def test_a_call_that_raises(self, mine, capsys):
        assert main(["explain", "mine:fails", "--args", "torch.ones(3)", "--backend", "eager"]) == 1
        assert "the call raised RuntimeError" in capsys.readouterr().err
        assert main(["explain", "mine:scaled", "--backend", "eager"]) == 1
        assert "give its arguments with --args" in capsys.readouterr().err

    @pytest.mark.parametrize("arguments, told", [
        (["mine"], "write module:function"), (["no_such:f"], "there is no module 'no_such'"),
        (["nowhere.py:f"], "there is no file 'nowhere.py'"), (["mine:scald"], "name 'scald' is not defined"),
        (["mine:scaled", "--args", "1,,"], "is no list of arguments: SyntaxError"),
        (["mine:scaled", "--args", "1", "--inputs", "mine:INPUTS"], "not both"),
        (["mine:INPUTS", "--args", "1"], "explain takes a function"),
        (["mine:Net", "--args", "1"], "not the class"),
        (["bad:f"], "bad cannot be imported: ZeroDivisionError"),
    ])
    def test_questions_that_are_wrong(self, mine, capsys, arguments, told):
        (mine / "bad.py").write_text("1 / 0\n")
        assert main(["explain", *arguments, "--backend", "eager"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("torchgraft explain: ") and told in error


class TestOthers:
    def test_visualize(self, mine, capsys):
        assert main(["visualize", "mine:scaled", "--args", "torch.ones(3)", "-o", "page.html"]) == 0
        assert capsys.readouterr().out.splitlines()[-1].endswith("page.html")
        assert "scaled" in (mine / "page.html").read_text()
        assert main(["visualize", "mine:scaled", "--args", "torch.ones(3)", "-o", "no/such/page.html"]) == 2
        assert "there is no such folder" in capsys.readouterr().err
        assert main(["visualize", "mine:scaled", "--args", "torch.ones(3)", "-o", "."]) == 2
        assert "cannot write '.'" in capsys.readouterr().err
        assert main(["explain", "mine:scaled", "--args", "torch.ones(3)", "--html", "no/such/page.html"]) == 2
        assert "cannot write 'no/such/page.html'" in capsys.readouterr().err
        assert main(["visualize", "mine:INPUTS"]) == 2

    def test_scan(self, mine, capsys):
        assert main(["scan", "mine:scaled", "--summary"]) == 0
        told = capsys.readouterr().out
        assert "may be tensor operations" in told and "here" not in told
        assert main(["scan", "mine:scaled", "--args", "torch.ones(2)"]) == 0
        told = capsys.readouterr().out
        assert "3 tensor operations, 3 captured (100%)" in told and "print() writes output" in told
        assert main(["scan", "mine:scaled", "--inputs", "mine:INPUTS", "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out.partition("here\n")[2])["capture_rate"] == 1
        assert main(["scan", "mine:fails", "--args", "torch.ones(3)"]) == 1
        assert main(["scan", "mine:Net"]) == 2
        assert "not the class" in capsys.readouterr().err

    def test_doctor(self, capsys, monkeypatch):
        assert main(["doctor"]) == 0
        told = capsys.readouterr().out
        assert torch.__version__ in told and "default backend" in told and "monitoring tools in use" in told
        assert main(["doctor", "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out) == doctor()
        monkeypatch.setenv("TORCHGRAFT", "0")
        assert doctor()["switched off by TORCHGRAFT"].startswith("yes")

    @pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="no sys.monitoring in this Python")
    def test_doctor_tells_who_has_the_tool_ids(self):
        for tool in (3, 4, 5):
            sys.monitoring.use_tool_id(tool, "somebody")
        try:
            facts = doctor()
        finally:
            for tool in (3, 4, 5):
                sys.monitoring.free_tool_id(tool)
        assert facts["monitoring tools in use"].endswith("3: somebody, 4: somebody, 5 (optimizer): somebody")
        assert "no tool id" in facts["function starts"] and facts["discovery"].startswith("not possible")
        assert doctor()["function starts"] == "sys.monitoring, tool id 5"

    def test_help(self, capsys):
        for arguments in (["--help"], ["run", "--help"], ["explain", "--help"]):
            with pytest.raises(SystemExit) as end:
                main(arguments)
            assert end.value.code == 0 and "torchgraft" in capsys.readouterr().out
        for arguments in ([], ["no such command"], ["explain"]):
            with pytest.raises(SystemExit) as end:
                main(arguments)
            assert end.value.code == 2

    def test_the_entry_point_is_there(self):
        text = (ROOT / "pyproject.toml").read_text()
        assert 'torchgraft = "tracer.command_line:main"' in text


#: As its authors would have written it: nothing in it knows of torchgraft.
THIRD_PARTY = textwrap.dedent("""
    import argparse
    import json
    import time

    import torch
    from torch.utils.data import DataLoader, Dataset
    from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup


    class Digits(Dataset):
        def __init__(self, length, block):
            self.data = torch.randint(0, 64, (length, block), generator=torch.Generator().manual_seed(0))

        def __len__(self):
            return len(self.data)

        def __getitem__(self, i):
            return {"input_ids": self.data[i], "labels": self.data[i]}


    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--steps", type=int, default=40)
        parser.add_argument("--layers", type=int, default=1)
        parser.add_argument("--output")
        args = parser.parse_args()

        torch.manual_seed(0)
        config = GPT2Config(vocab_size=64, n_positions=64, n_embd=64, n_layer=args.layers, n_head=2)
        model = GPT2LMHeadModel(config)
        model.train()
        loader = DataLoader(Digits(4 * args.steps, 32), batch_size=4)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
        scheduler = get_linear_schedule_with_warmup(optimizer, 2, args.steps)
        losses, times = [], []
        for batch in loader:
            start = time.process_time()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            times.append(time.process_time() - start)
        print(f"last loss {losses[-1]:.4f}")
        with open(args.output, "w") as file:
            json.dump({"losses": losses, "times": times}, file)


    if __name__ == "__main__":
        main()
""")


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="only Python 3.13's environment has it")
def test_a_third_party_training_script_runs_unchanged_and_faster(tmp_path):
    (tmp_path / "train.py").write_text(THIRD_PARTY)
    plain = python("train.py", "--output", "plain.json", cwd=tmp_path)
    run = python("-m", "tracer", "run", "train.py", "--output", "run.json", cwd=tmp_path, timeout=600)
    assert plain.returncode == run.returncode == 0, run.stderr
    assert run.stdout == plain.stdout
    before, now = (json.loads((tmp_path / name).read_text()) for name in ("plain.json", "run.json"))
    assert now["losses"] == pytest.approx(before["losses"], abs=1e-4)  # with dropout, so with the same random numbers
    assert re.search(r"compiled    1 region of 1 function.*by inductor", run.stderr), run.stderr
    assert "0 graph breaks" in run.stderr and "modeling_gpt2" not in plain.stderr
    half = len(before["times"]) // 2
    ratio = statistics.median(before["times"][half:]) / statistics.median(now["times"][half:])
    print(f"a step takes 1/{ratio:.2f} of the processor's time")
    assert ratio > 1.1
