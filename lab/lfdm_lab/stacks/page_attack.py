"""Attacks on a cockpit by hostile pages (`lfdm_lab.fuzzing.pages`) while another page drives."""

import asyncio
import base64
import json
import math
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from lfdm_lab.fuzzing import pages
from lfdm_lab.fuzzing.pages import BINARY, CLOSE, PING, TEXT, Refusals, frame
from lfdm_lab.fuzzing.trees import TEXTS
from lfdm_lab.page_client import PageClient
from lfdm_ros.cockpit.seat import MAX_INPUT_RATE
from lfdm_ros.errors import RunError

DRIVER = {"held": True, "steering": 0.125, "throttle": 0.25, "brake": 0.0}
ALLOWED = ((0.125, 0.25, 0.0), (0.0, 0.0, 0.4), (0.0, 0.0, 1.0))  # of the driver, of a released seat, of a stop
PATIENT: dict[str, Any] = {"input_timeout": 5.0, "picture_timeout": 30.0, "lease_timeout": 60.0, "released": "brake"}  # on a busy machine
_WAIT = 20.0  # [s] for an expected event
_FLOOD = 1000  # messages
_NAMES = "1", "2", "", "x" * 300, "%00", "%ff", "%0a", "a&page=b"  # of pages
_STRANGER = {"number": 1, "time": 0.0, "held": True, "steering": -0.75, "throttle": 1.0, "brake": 0.0, "picture": 0}


class _Connection:
    """A connection for arbitrary bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, content: bytes) -> None:
        """Sends bytes, unless the server has ended the connection."""
        try:
            self.writer.write(content)
            await self.writer.drain()
        except OSError:
            pass

    async def ended(self) -> None:
        """Waits until the server has ended the connection. Raises RunError: it does not."""
        try:
            while await asyncio.wait_for(self.reader.read(1 << 16), _WAIT):
                pass
        except OSError:
            pass
        except asyncio.TimeoutError:
            raise RunError(["a connection that was to end stays open"], {}) from None
        finally:
            self.writer.close()


class PageAttack:
    """Successive attacks on a server, each with the number of refusals that it must cause."""

    def __init__(self, url: str, rng: Random) -> None:
        self.driver = PageClient(url, 30.0)
        self.low = self.high = 0
        self.done: list[str] = []
        self._rng = rng
        self._attacks: tuple[Callable[[], Awaitable[tuple[str, Refusals]]], ...] = (
            self._intrude, self._wrong_token, self._wrong_page, *3 * [self._send_inputs], *2 * [self._send_requests],
            *2 * [self._send_frames], self._flood, self._take_the_seat, self._acknowledge_unread, self._ping_unread, self._crowd)

    async def run(self, number: int) -> None:
        """Drives during a number of attacks and afterwards. Raises RunError: the driver has lost the seat, or refusals are miscounted."""
        await self.driver.open()
        self.cookie = await self.driver.cookie()
        await self._until(lambda: self.driver.picture > 0, "no state comes")
        await self._take_up("the driver does not get the seat")
        for _ in range(number):
            description, (low, high) = await self._rng.choice(self._attacks)()
            self.done.append(description)
            self.low, self.high = self.low + low, self.high + high
            await self._until(lambda: self.driver.seat["refused"] >= self.low, f"less than {self.low} refusals are counted")
            if not self.driver.seat["yours"]:
                raise RunError([f"{self.driver.seat['driver'] or 'nobody'} has the seat after: {description}"], {})
        await asyncio.sleep(0.3)
        if not self.low <= (refused := self.driver.seat["refused"]) <= self.high:
            raise RunError([f"{refused} refusals where there must be {self.low} to {self.high}: {'; '.join(self.done)}"], {})
        for request in ("pause", "resume"):
            await self.driver.view.write_message(json.dumps({request: request == "resume"}))
        await self._until(lambda: not self.driver.seat["stopped"], "a stop does not end")
        await self._take_up("the driver cannot go on")
        self.driver.close()

    async def _take_up(self, failure: str) -> None:
        """Releases and holds until the driver drives; a resume or restart in between requires another release."""
        end = time.monotonic() + _WAIT
        while not (self.driver.seat.get("yours") and self.driver.seat["drives"]):
            if time.monotonic() > end:
                raise RunError([f"{failure}: {self.driver.seat.get('reason')}; after: {'; '.join(self.done[-3:])}"], {})
            await self.driver.send(held=False, steering=0.0, throttle=0.0, brake=0.0)
            await self.driver.send(**DRIVER)
            await asyncio.sleep(0.5)

    async def _until(self, condition: Callable[[], object], failure: str) -> None:
        end = time.monotonic() + _WAIT
        while not condition():
            if ended := [task for task in self.driver.tasks if task.done()]:
                await ended[0]
                raise RunError([f"the driver's connection has ended after: {'; '.join(self.done[-3:])}"], {})
            if time.monotonic() > end:
                raise RunError([f"{failure}, after: {'; '.join(self.done[-3:])}"], {})
            await asyncio.sleep(0.01)

    async def _connect(self) -> _Connection:
        host, port = self.driver.base.partition("//")[2].split(":")
        return _Connection(*await asyncio.open_connection(host, int(port)))

    async def _request(self, line: str, headers: dict[str, str], body: str = "") -> tuple[_Connection, int]:
        """Sends an HTTP request; returns the connection and the status of the answer, 0: none."""
        connection = await self._connect()
        base = {"Host": self.driver.base.partition("//")[2], "Origin": self.driver.base, "Cookie": self.cookie}
        lines = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in {**base, **headers}.items()), "", body]
        await connection.send("\r\n".join(lines).encode("utf-8", "surrogateescape"))
        try:
            head = await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), _WAIT)
        except (asyncio.IncompleteReadError, OSError):
            return connection, 0
        return connection, int(head.split()[1])

    async def _open(self, path: str, **headers: str) -> tuple[_Connection, int]:
        key = base64.b64encode(self._rng.randbytes(16)).decode()
        return await self._request(f"GET /{path}", {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                                                    "Sec-WebSocket-Key": key, **headers})

    async def _socket(self, path: str) -> _Connection:
        connection, status = await self._open(f"{path}?page={self._rng.choice(_NAMES)}")
        if status != 101:
            raise RunError([f"a socket is answered {status}"], {})
        return connection

    def _intent(self, number: int, **changes: Any) -> dict[str, Any]:
        """Returns an input as it should be, but for the changes."""
        return {**_STRANGER, "number": number, "time": time.monotonic(), "picture": self.driver.picture, **changes}

    # ---- attacks: each returns what it did, and the refusals ---------------------------------------------------------------

    async def _intrude(self) -> tuple[str, Refusals]:
        origin = self._rng.choice(("http://evil.example", "null", "http://[", "https://127.0.0.1", "http://127.0.0.1:1", "x" * 99, "ä"))
        host = self._rng.choice(("evil.example", "127.0.0.1", "localhost:1", "x" * 300))
        cookie = self._rng.choice(("lfdm_1=guess", self.cookie[:-1], self.cookie + "\u00e4"))
        headers = self._rng.choice(({"Origin": origin}, {"Host": host}, {"Cookie": cookie}))
        connection, status = await self._open(self._rng.choice(("view", "input")), **headers)
        connection.writer.close()
        if status != 403:
            raise RunError([f"{headers} is answered {status}"], {})
        return f"a socket with {headers}"[:80], (1, 1)

    async def _wrong_token(self) -> tuple[str, Refusals]:
        token = self._rng.choice(("", "guess", self.driver.token[:-1], self.driver.token + "x", "\u00e4", "\0"))
        connection, status = await self._request("POST /session", {"Cookie": "a=b", "Content-Length": str(len(token.encode()))}, token)
        connection.writer.close()
        if status != 403:
            raise RunError([f"token {token!r} is answered {status}"], {})
        return f"token {token!r}", (1, 1)

    async def _wrong_page(self) -> tuple[str, Refusals]:
        """Requests missing files, unsupported methods, and sockets without their headers."""
        path = self._rng.choice(("../seat.py", "%2e%2e/server.py", "%00", "%ff", "vendor", "x" * 3000, "view", "input", "main.js/x"))
        connection, status = await self._request(f"{self._rng.choice(('GET', 'POST', 'PUT', 'HEAD'))} /{path}", {"Content-Length": "0"})
        connection.writer.close()
        if not 300 <= status < 500:
            raise RunError([f"/{path:.40} is answered {status}"], {})
        return f"/{path:.40}", (0, 1)

    async def _send(self, path: str, messages: list[tuple[bytes, str, Refusals]]) -> tuple[str, Refusals]:
        """Sends messages to a new socket until one ends it; returns the refusals that they must cause."""
        connection, low, high, sent = await self._socket(path), 0, 0, []
        for content, description, (at_least, at_most) in messages:
            opcode = self._rng.choice((TEXT, TEXT, BINARY))
            if opcode == BINARY:
                at_least, at_most = (pages.refusals_of_input if path == "input" else pages.refusals_of_request)(content, opcode)
            await connection.send(frame(content, opcode))
            low, high = low + at_least, high + at_most
            sent.append(description)
            if not pages.is_readable(content, opcode):
                break
        await connection.send(frame(b"", CLOSE))
        await connection.ended()
        return f"{path}: {', '.join(sent)}"[:300], (low, high)

    async def _send_inputs(self) -> tuple[str, Refusals]:
        messages = []
        for number in range(1, self._rng.choice((2, 6))):
            content, description = pages.hostile_input(self._intent(number), self._rng)
            messages.append((content, description, pages.refusals_of_input(content)))
        return await self._send("input", messages)

    async def _send_requests(self) -> tuple[str, Refusals]:
        messages = []
        for _ in range(self._rng.choice((1, 5))):
            content, description = pages.hostile_request(self._rng)
            messages.append((content, description, pages.refusals_of_request(content)))
        return await self._send("view", messages)

    async def _send_frames(self) -> tuple[str, Refusals]:
        path = self._rng.choice(("view", "input"))
        connection = await self._socket(path)
        content, description, refusals = pages.hostile_frames(self._rng)
        await connection.send(content)
        connection.writer.write_eof()
        await connection.ended()
        return f"{path}: {description}", refusals

    async def _flood(self) -> tuple[str, Refusals]:
        """Sends a thousand messages at once, beyond the permitted rate."""
        path = self._rng.choice(("view", "input"))
        connection, began = await self._socket(path), time.monotonic()
        for number in range(1, _FLOOD + 1):
            message = self._intent(number, held=False, throttle=0.0) if path == "input" else {"pace": 1.0}
            await connection.send(frame(json.dumps(message).encode()))
        await connection.send(frame(b"", CLOSE))
        await connection.ended()
        seconds = math.ceil(time.monotonic() - began)
        return f"{path}: {_FLOOD} messages in {seconds} s", (max(0, _FLOOD - MAX_INPUT_RATE * (seconds + 1)), _FLOOD)

    async def _take_the_seat(self) -> tuple[str, Refusals]:
        """Releases and holds like a driver; repeats old numbers and times."""
        connection, now, refused = await self._socket("input"), time.monotonic(), 0
        for number, held, at in ((1, False, now), (2, True, now), (3, True, now), (3, True, now), (4, False, now), (5, True, now),
                                 (6, True, now - 60.0)):
            await connection.send(frame(json.dumps(self._intent(number, held=held, throttle=1.0 * held, time=at)).encode()))
            refused += held
        await connection.send(frame(b"", CLOSE))
        await connection.ended()
        return "another driver", (refused, refused)

    async def _acknowledge_unread(self) -> tuple[str, Refusals]:
        """Acknowledges unread, unsent and invalid numbers of messages; reads none."""
        connection = await self._socket("view")
        counts = [*range(1, 100), -1, 0, 2**31, 2**64, 10**300]
        for count in counts:
            await connection.send(frame(json.dumps({"ack": count}).encode()))
        await asyncio.sleep(0.2)
        connection.writer.close()
        return "acknowledges without reading", (0, 0)

    async def _ping_unread(self) -> tuple[str, Refusals]:
        connection = await self._socket(self._rng.choice(("view", "input")))
        for _ in range(20):
            connection.writer.write(frame(b"x" * 125, PING) * 50)
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        connection.writer.close()
        return "pings without reading", (0, 0)

    async def _crowd(self) -> tuple[str, Refusals]:
        """Opens connections that send nothing or incomplete requests."""
        connections = [await self._connect() for _ in range(self._rng.choice((10, 60)))]
        for connection in connections:
            await connection.send(self._rng.choice((b"", b"G", b"GET / HTTP/1.1\r\n", b"\xff" * 20, self._rng.choice(TEXTS)[:50].encode())))
            connection.writer.close()
        return f"{len(connections)} connections", (0, 0)
