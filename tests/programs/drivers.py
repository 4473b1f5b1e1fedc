"""Who drives a `program` that is a generator function or a coroutine function.

worlds.py calls `drive(entry, *arguments)` in its place. Only `program` is compiled, `drive` stays plain Python.
"""

from __future__ import annotations

from tests.programs.writer import Choices

DRIVERS: dict[str, tuple[str, ...]] = {
    "generator": (
        "return list(itertools.islice(entry(*arguments), 12))",
        """
generator = entry(*arguments)
first = next(generator, None)
return first, [*itertools.islice(generator, 9)]
""",
        """
generator, got = entry(*arguments), []
try:
    got.append(next(generator))
    for value in (None, 0.5, 2, None, 3):
        got.append(generator.send(value))
except StopIteration as stop:
    got.append(stop.value)
return got
""",
        """
generator, got = entry(*arguments), []
try:
    got.append(next(generator))
    got.append(next(generator))
    got.append(generator.throw(ValueError('thrown')))
    got.extend(itertools.islice(generator, 5))
except StopIteration as stop:
    got.append(stop.value)
return got
""",
        """
generator = entry(*arguments)
got = [next(generator, None), next(generator, None)]
generator.close()
return got
""",
        """
if not PENDING:
    PENDING.append(entry(*arguments))
got = [*itertools.islice(PENDING[0], 2)]
if not got:
    PENDING.clear()
return got
""",
        """
got = []
for value in entry(*arguments):
    got.append(value)
    if len(got) == 3:
        break
return got
""",
        "return [*zip(entry(*arguments), entry(*arguments), range(6))]",
    ),
    "coroutine": (
        "return asyncio.run(entry(*arguments))",
        "return stepped(entry(*arguments))",
        "return stepped(entry(*arguments))",
        """
async def both():
    return await asyncio.gather(entry(*arguments), entry(*arguments))
return asyncio.run(both())
""",
        """
coroutine = entry(*arguments)
try:
    coroutine.send(None)
    coroutine.throw(ValueError('thrown'))
except StopIteration as stop:
    return stop.value
finally:
    coroutine.close()
""",
        """
async def one():
    return await asyncio.wait_for(entry(*arguments), 60)
return asyncio.run(one())
""",
    ),
}


def write_driver(choices: Choices, kind: str) -> str:
    lines = choices.choose(DRIVERS[kind]).strip().split("\n")
    return "\n".join(["def drive(entry, *arguments):", *("    " + line for line in lines)])
