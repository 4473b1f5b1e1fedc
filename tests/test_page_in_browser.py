"""The page of tracer.visualize in a real browser: every stop is reached by keyboard, and nothing is complained of.

Needs Chromium (Debian's package `chromium`, or another one on PATH) and the driver `playwright`, which `.ci/browser`
installs; skipped where either is missing. TORCHGRAFT_BROWSER_DRIVER names the folder where it put the driver.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tracer

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
sys.path += [folder for folder in [os.environ.get("TORCHGRAFT_BROWSER_DRIVER", "")] if folder]


def missing() -> str:
    """What there is not, in words."""
    if not any(map(shutil.which, BROWSERS)):
        return f"no browser found: none of {', '.join(BROWSERS)} is on PATH"
    if importlib.util.find_spec("playwright") is None:
        return "the driver playwright is not installed: .ci/browser does that"
    return ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing")


def helper(x):
    return x.relu() * 2


def program(x, w, n):
    for i in range(n):
        x = torch.tanh(x @ w) + i
    print(end="")
    return helper(x).mean(0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        path = next(filter(None, map(shutil.which, BROWSERS)))
        # tests may run as root in a container, where Chromium's own sandbox cannot be had
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tracer.install(backend="eager")
    try:
        path = tmp_path_factory.mktemp("page") / "page.html"
        return tracer.visualize(program, torch.ones(4, 3), torch.eye(3), 2, path=path)
    finally:
        tracer.uninstall()


Opened = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, page_file: Path) -> Iterator[Opened]:
    """Opens the page; at the end nothing may have been complained of, and nothing asked of the network."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def note(told: Any) -> None:
        complaints.append(getattr(told, "text", str(told)))

    def open_page(*, theme: str = "light", size: tuple[int, int] = (1280, 800), at: str = "") -> Any:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", note)
        page.on("request", lambda asked: None if asked.url.startswith("file://") else note(asked.url))
        page.goto(page_file.as_uri() + at)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def walk(page: Any) -> list[tuple[str, str]]:
    """From the first stop to the last by the right arrow: what is said at each, and where it is."""
    page.keyboard.press("Home")
    found = []
    while True:
        found.append((page.inner_text("#count"), page.inner_text("#say")))
        if page.is_disabled("#next"):
            return found
        assert len(found) < 2000
        page.keyboard.press("ArrowRight")


def test_every_stop_of_each_view_by_keyboard(opened: Opened) -> None:
    page = opened()
    said = {}
    for step in "123":
        page.keyboard.press(step)
        assert page.get_attribute(f"#tab-{step}", "aria-selected") == "true"
        stops = said[step] = walk(page)
        count = len(stops)
        assert [where for where, _ in stops] == [f"{n} / {count}" for n in range(1, count + 1)]
        assert all(text.strip() for _, text in stops)
        for n in range(count - 1, 0, -1):  # and back
            page.keyboard.press("ArrowLeft")
            assert page.inner_text("#count") == f"{n} / {count}"
    texts = {step: " | ".join(text for _, text in stops) for step, stops in said.items()}
    assert "BINARY_OP @ takes x and w, pushes x @ w as matmul." in texts["1"]
    assert "Graph break: print() writes output" in texts["1"] and "Graph break" in texts["2"]
    assert "Hit: all guards hold" in texts["3"]
    page.keyboard.press("c")
    other = " | ".join(text for _, text in walk(page))
    assert "Miss: no region fits" in other and "It is captured again" in other
    assert "it saw shape (5, 3) where (4, 3) was" in other


def test_the_views_show_what_they_say(opened: Opened) -> None:
    page = opened()
    page.keyboard.press("Home")
    while "BINARY_OP @" not in page.inner_text("#say"):
        page.keyboard.press("ArrowRight")
    assert page.inner_text(".ins.on").split()[1:] == ["BINARY_OP", "@"]
    assert page.inner_text(".src mark") == "x @ w"
    assert "matmul" in page.inner_text(".stk >> nth=1")
    assert page.locator(".chip.node").count() == 3
    page.keyboard.press("2")
    assert page.locator(".graph g.node").count() == 3 and page.locator(".graph path.edge").count() == 2
    page.keyboard.press("End")
    assert page.locator(".graph g.node").count() > 2
    while page.locator(".graph .cut").count() == 0:
        page.keyboard.press("ArrowLeft")
    assert "graph break: print() writes output" in page.locator(".graph .cut").text_content()
    page.keyboard.press("3")
    page.keyboard.press("End")
    assert page.locator(".g.yes").count() > 5 and page.locator(".g.no").count() == 0
    page.keyboard.press("c")
    page.keyboard.press("End")
    assert page.locator(".g.no").count() == 2, "one guard that failed at each entry"
    assert "(4, 3) → (5, 3)" in page.locator(".part.no").first.inner_text()


def test_keys_buttons_and_slider_do_the_same(opened: Opened) -> None:
    page = opened()
    page.keyboard.press("End")
    count = int(page.inner_text("#count").split("/")[1])
    page.click("#first")
    page.click("#next")
    assert page.inner_text("#count") == f"2 / {count}"
    page.keyboard.press("Shift+ArrowRight")
    assert page.inner_text("#count") == f"12 / {count}"
    page.click("#back")
    assert page.inner_text("#count") == f"11 / {count}"
    page.fill("#slider", "20")
    assert page.inner_text("#count") == f"21 / {count}"
    page.click("#last")
    assert page.inner_text("#count") == f"{count} / {count}" and page.is_disabled("#next")
    page.click("#tab-2")
    assert page.get_attribute("#tab-2", "aria-selected") == "true"
    page.keyboard.press("1")
    page.focus("#slider")  # arrows on it move the page as they do elsewhere
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#count") == f"2 / {count}"


def test_over_a_call_and_play(opened: Opened) -> None:
    page = opened()
    page.keyboard.press("Home")
    while "which is read next" not in page.inner_text("#say"):
        page.keyboard.press("ArrowRight")
    before = int(page.inner_text("#count").split("/")[0])
    page.keyboard.press("o")
    assert "the call is over" in page.inner_text("#say")
    assert int(page.inner_text("#count").split("/")[0]) > before + 3
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    page.wait_for_function("document.getElementById('count').textContent.startsWith('2 /')")
    page.keyboard.press(" ")
    assert page.get_attribute("#play", "aria-label") == "play"


def colour(page: Any) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_and_dark(opened: Opened) -> None:
    light, dark = opened(theme="light"), opened(theme="dark")
    bright, deep = colour(light), colour(dark)
    assert bright != deep and light.locator("html").get_attribute("data-theme") == "light"
    light.keyboard.press("t")
    assert colour(light) == deep
    dark.click("#theme")
    assert colour(dark) == bright
    dark.reload()
    assert colour(dark) == bright, "what was chosen is kept"


def test_help_by_key_and_away_again(opened: Opened) -> None:
    page = opened()
    page.keyboard.press("?")
    assert page.is_visible("#legend") and "Shift" in page.inner_text("#legend")
    page.keyboard.press("Escape")
    assert not page.is_visible("#legend")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#count").startswith("2 /")


@pytest.mark.parametrize("size", [(1280, 800), (900, 700), (600, 900), (360, 740)])
def test_nothing_is_wider_than_the_window(opened: Opened, size: tuple[int, int]) -> None:
    page = opened(size=size)
    for step in "123":
        page.keyboard.press(step)
        page.keyboard.press("End")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), step
        box = page.locator(".transport").bounding_box()
        assert box["y"] + box["height"] <= size[1] + 1, "the buttons are in sight"


def test_an_address_leads_to_a_stop(opened: Opened) -> None:
    page = opened(at="#2.12")
    assert page.get_attribute("#tab-2", "aria-selected") == "true"
    page = opened(at="#3.1.4")
    assert page.inner_text("#count").startswith("5 /")
    page = opened(at="#nonsense")
    assert page.get_attribute("#tab-1", "aria-selected") == "true"
