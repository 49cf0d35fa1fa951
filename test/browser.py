"""Chromium of the distribution, driven by Playwright, for tests of the cockpit's page."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

FLAT = "--disable-3d-apis"  # the page then draws the bird's view in two dimensions: light, where there is no GPU
SOFTWARE_GL = ("--enable-unsafe-swiftshader", "--use-angle=swiftshader", "--disable-gpu-rasterization")
PATIENCE = 120.0  # [s] for anything to happen


@contextmanager
def chromium() -> Iterator[Callable[..., Any]]:
    """Gives a function that starts a browser without a window, with arguments; skips the test where there is no Chromium."""
    path = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium on the PATH; install the distribution's package chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright in this environment")
    with playwright.sync_playwright() as driver, ExitStack() as opened:
        def launch(*arguments: str) -> Any:
            browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-accelerated-2d-canvas", *arguments])
            opened.callback(browser.close)
            return browser

        yield launch


class Page:
    """The cockpit in a tab, and what went wrong there."""

    def __init__(self, browser: Any, url: str, *, query: str = "", script: str = "", **context: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 720}, **context})
        self.context.set_default_timeout(1000.0 * PATIENCE)
        self.tab = self.context.new_page()
        self.faults: list[str] = []
        host = url.split("/")[2]
        self.tab.on("console", lambda message: message.type in ("error", "warning") and self.faults.append(message.text))
        self.tab.on("pageerror", lambda error: self.faults.append(str(error)))
        self.tab.on("request", lambda request: request.url.split("/")[2] == host or request.url.startswith(("data:", "blob:"))
                    or self.faults.append(request.url))
        if script:
            self.tab.add_init_script(script)
        self.tab.goto(url.replace("/#", f"/{query}#"))

    def data(self, name: str) -> str:
        """Returns what the page says of itself."""
        return str(self.tab.evaluate(f"document.body.dataset.{name} ?? ''"))

    def wait(self, selector: str) -> Any:
        """Waits for an element."""
        return self.tab.wait_for_selector(selector, state="attached")

    def close(self) -> None:
        self.context.close()
