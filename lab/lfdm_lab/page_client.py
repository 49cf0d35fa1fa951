"""A page of the cockpit without a browser: a session, the view by credit, inputs at a rate."""

import asyncio
import json
import math
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from tornado.httpclient import AsyncHTTPClient, HTTPError, HTTPRequest
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from lfdm_ros.cockpit.wire import STATE

_URL = re.compile(r"http://\S+#token=\S+")
LOST = HTTPError, OSError, StreamClosedError, WebSocketClosedError  # errors of a connection


def find_url(text: str) -> str | None:
    """Returns the address printed by a cockpit; None: not yet."""
    found = _URL.search(text)
    return found[0] if found else None


class PageClient:
    """A page: acknowledges the view, sends its intent at a rate.

    Attributes:
        intent: held, steering, throttle, brake, as sent.
        silent: no inputs are sent.
        state: time of arrival of the newest state (time.monotonic) [s], and its values (21).
        seat: the server's newest message on the seat; empty: none yet.
        received, sent: numbers of messages.
    """

    def __init__(self, url: str, rate: float = 50.0) -> None:
        self.base, self.token = url.split("/#token=")
        self.state: tuple[float, np.ndarray] = (0.0, np.zeros(21))
        self.sent = self.received = self.picture = 0
        self.intent = {"held": False, "steering": 0.0, "throttle": 0.0, "brake": 0.0}
        self.seat: dict[str, Any] = {}
        self.silent = False
        self._period = 1.0 / rate

    async def open(self) -> None:
        """Opens the session and both sockets, and starts to read and to send."""
        cookie = await self.cookie()
        self.view, self.input = [await self.socket(f"{path}?page={id(self)}", cookie) for path in ("view", "input")]
        self.tasks = [asyncio.ensure_future(task) for task in (self._read(), self._write())]

    async def cookie(self) -> str:
        """Exchanges the token for the session's cookie."""
        answer = await AsyncHTTPClient().fetch(HTTPRequest(
            f"{self.base}/session", method="POST", body=self.token, headers={"Origin": self.base}))
        return answer.headers["Set-Cookie"].partition(";")[0]

    async def socket(self, path: str, cookie: str, **headers: str) -> WebSocketClientConnection:
        """Opens a socket; headers replace the default ones."""
        return await websocket_connect(HTTPRequest(
            f"{self.base.replace('http', 'ws', 1)}/{path}", headers={"Cookie": cookie, "Origin": self.base, **headers}))

    async def _read(self) -> None:
        while (message := await self.view.read_message()) is not None:
            self.received += 1
            if self.received % 2 == 0:  # like the page
                await self.view.write_message(f'{{"ack":{self.received}}}')
            if isinstance(message, str) and message.startswith('{"kind":"seat"'):
                self.seat = json.loads(message)
            elif isinstance(message, bytes) and message[0] == STATE:
                self.picture = int.from_bytes(message[4:8], "little")
                self.state = time.monotonic(), np.frombuffer(message[16:], "<f4")

    async def _write(self) -> None:
        while True:
            if not self.silent:
                await self.send()
            await asyncio.sleep(self._period)

    async def send(self, **intent: Any) -> None:
        """Changes the intent and sends it at once."""
        self.intent.update(intent)
        self.sent += 1
        content = {**self.intent, "number": self.sent, "time": time.monotonic(), "picture": self.picture}
        await self.input.write_message(json.dumps(content))

    def close(self) -> None:
        """Closes both sockets."""
        for task in self.tasks:
            task.cancel()
        self.view.close()
        self.input.close()


class DrivingPage(threading.Thread):
    """A page in a thread of its own that drives for a third of the time and releases the seat for the rest.

    Attributes:
        client: the page; None until the cockpit has printed its address.
        lost: the error that ended it; empty: none.
    """

    _DRIVE_TIME, _RELEASE_TIME = 5.0, 10.0  # [s]
    _SWAY, _SWAY_PERIOD, _THROTTLE = 0.1, 4.0, 0.3  # [1, s, 1] of steering, while it is held

    def __init__(self, printed: Callable[[], str], rate: float = 30.0) -> None:
        """Creates a page that waits for the address. printed: reads the cockpit's output so far; rate: of inputs [Hz]."""
        super().__init__(name="driving page", daemon=True)
        self._printed, self._rate, self._ended = printed, rate, threading.Event()
        self.client: PageClient | None = None
        self.lost = ""

    def run(self) -> None:
        """Drives until `end`."""
        try:
            asyncio.run(self._drive())
        except LOST as error:
            self.lost = f"{type(error).__name__}: {error}"

    def end(self) -> None:
        """Closes the page."""
        self._ended.set()
        self.join()

    async def _drive(self) -> None:
        while (url := find_url(self._printed())) is None:
            if self._ended.is_set():
                return
            await asyncio.sleep(0.1)
        self.client = PageClient(url, self._rate)
        await self.client.open()
        began = time.monotonic()
        while not self._ended.is_set():
            at = (time.monotonic() - began) % (self._DRIVE_TIME + self._RELEASE_TIME)
            held = at < self._DRIVE_TIME
            self.client.intent.update(held=held, throttle=self._THROTTLE * held,
                                      steering=self._SWAY * held * math.sin(2.0 * math.pi * at / self._SWAY_PERIOD))
            await asyncio.sleep(1.0 / self._rate)
            if (ended := next((task for task in self.client.tasks if task.done()), None)) is not None:
                await ended
                raise WebSocketClosedError("the server has closed the view")
        with suppress(*LOST):
            self.client.close()
