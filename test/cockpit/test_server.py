"""The server: access by token, host and origin; inputs to the seat; a frozen page costs the others nothing; the page's files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from lfdm_ros.bounds import Refused
from lfdm_ros.cockpit import server as server_module
from lfdm_ros.cockpit.seat import MAX_INPUT_RATE, Seat, SeatSettings
from lfdm_ros.cockpit.server import PAGE, CockpitServer
from lfdm_ros.cockpit.wire import CREDIT, STATE, pack
from lfdm_ros.errors import InputError


class Served:
    """A server, the requests that its pages made, and a client's way in."""

    def __init__(self, **settings: Any) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.server = CockpitServer(Seat(SeatSettings(released="brake")), self.on_request, **settings)
        self.server.start()
        self.base, self.token = self.server.url.split("/#token=")
        self.host = self.base.partition("//")[2]

    def on_request(self, name: str, value: Any, page: str) -> None:
        if name == "nonsense":
            raise Refused("nonsense")
        self.requests.append((name, value))

    async def fetch(self, path: str, *, body: str | None = None, **headers: str) -> Any:
        request = HTTPRequest(f"{self.base}/{path}", method="GET" if body is None else "POST", body=body,
                              headers={"Origin": self.base, **headers})
        try:
            return await AsyncHTTPClient().fetch(request)
        except HTTPClientError as error:
            return error.response

    async def cookie(self) -> str:
        response = await self.fetch("session", body=self.token)
        assert response.code == 204
        cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        return cookie.partition(";")[0]

    async def socket(self, path: str, cookie: str, **headers: str) -> WebSocketClientConnection:
        return await websocket_connect(HTTPRequest(f"ws://{self.host}/{path}", headers={"Cookie": cookie, "Origin": self.base, **headers}))

    async def until(self, condition: Any) -> None:
        end = time.monotonic() + 20.0
        while not condition():
            assert time.monotonic() < end, "waited 20 s"
            await asyncio.sleep(0.01)


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.server.stop()


def intent(number: int, **values: Any) -> str:
    rest = {"held": False, "steering": 0.0, "throttle": 0.0, "brake": 0.0, "picture": 0}
    return json.dumps({"number": number, "time": time.monotonic(), **rest, **values})


def test_the_page_comes_with_headers_that_let_nothing_else_in(served: Served) -> None:
    async def check() -> None:
        for path, kind in (("", "text/html"), ("main.js", "javascript"), ("vendor/three.module.js", "javascript")):
            response = await served.fetch(path)
            assert response.code == 200 and kind in response.headers["Content-Type"]
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            assert response.headers["Referrer-Policy"] == "no-referrer"
        for path in ("../seat.py", "%2e%2e/seat.py", "vendor/../../seat.py", "%00", "%ff"):
            assert (await served.fetch(path)).code in (400, 403, 404)

    asyncio.run(check())


def test_access_needs_token_host_and_origin(served: Served) -> None:
    async def check() -> None:
        assert (await served.fetch("session", body="guess")).code == 403
        assert (await served.fetch("session", body=served.token, Origin="http://evil.example")).code == 403
        assert (await served.fetch("", Host="evil.example")).code == 403  # a name of its own that resolves to this machine
        cookie = await served.cookie()
        for path in ("view", "input"):
            for wrong in ({"Origin": "http://evil.example"}, {"Host": "evil.example", "Origin": "http://evil.example"},
                          {"Origin": "http://["}, {"Origin": f"https://{served.host}"}):
                with pytest.raises(HTTPClientError, match="403"):
                    await served.socket(path, cookie, **wrong)
            with pytest.raises(HTTPClientError, match="403"):
                await served.socket(path, "lfdm_1=guess")
            with pytest.raises(HTTPClientError, match="403"):
                await served.socket(path, f"lfdm_{served.host.rpartition(':')[2]}=gu\u00e9ss")
            (await served.socket(path, cookie)).close()
        assert served.server.refused["access"] == 15

    asyncio.run(check())


def test_a_driver_by_socket_and_its_loss(served: Served) -> None:
    async def check() -> None:
        cookie = await served.cookie()
        socket = await served.socket("input?page=1", cookie)
        number = served.server.next_number()
        await socket.write_message(intent(1, picture=number))
        await socket.write_message(intent(2, picture=number, held=True, throttle=0.4))
        await served.until(lambda: served.server.command(time.monotonic()) == (0.0, 0.4, 0.0))
        socket.close()
        await served.until(lambda: served.server.command(time.monotonic()) == (0.0, 0.0, 0.4))

    asyncio.run(check())


def test_a_page_that_has_drawn_no_state_does_not_drive(served: Served) -> None:
    async def check() -> None:
        socket = await served.socket("input", await served.cookie())
        number = served.server.next_number()
        for k, picture in enumerate((-1, 0, number + 1, 2**70)):
            await socket.write_message(intent(2 * k + 1, picture=picture))
            await socket.write_message(intent(2 * k + 2, picture=picture, held=True, throttle=1.0))
        await asyncio.sleep(0.3)
        assert served.server.command(time.monotonic()) == (0.0, 0.0, 0.4)

    asyncio.run(check())


def test_hostile_messages_are_refused_and_counted(served: Served) -> None:
    async def check() -> None:
        cookie = await served.cookie()
        view, socket = await served.socket("view", cookie), await served.socket("input", cookie)
        for text in ("", "{", "[]", '{"ack": 1.5}', '{"nonsense": 1}', '{"a": 1, "b": 2}', '{"ack": true}'):
            await view.write_message(text)
        huge = intent(1).replace("0.0", "1" * 310, 1)
        for text in ("", "null", intent(1, steering=float("nan")), intent(2, throttle=7.0), "[" * 300, huge):
            await socket.write_message(text)
        await served.until(lambda: sum(served.server.refused.values()) == 13)
        await view.write_message('{"stop": true}')
        await served.until(lambda: served.requests == [("stop", True)])
        await view.write_message("x" * 3000)  # the connection ends, and only this one
        await served.until(lambda: not served.server.views)
        await socket.write_message(intent(3))
        assert served.server.command(time.monotonic()) == (0.0, 0.0, 0.4)

    asyncio.run(check())


def test_a_connection_that_ends_for_what_it_sent_is_counted(served: Served) -> None:
    async def check() -> None:
        cookie = await served.cookie()
        for ended, (content, reason) in enumerate(((b"\x81\xfe\x80\x00", "too_many"), (b"\xb1\x80" + bytes(4), "malformed"),
                                                   (b"\x81\x81" + bytes(4) + b"\xff", "malformed")), 1):
            for path in ("view", "input"):
                host, port = served.host.split(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                lines = (f"GET /{path} HTTP/1.1", f"Host: {served.host}", f"Origin: {served.base}", f"Cookie: {cookie}",
                         "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                         "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "", "")
                writer.write("\r\n".join(lines).encode() + content)
                await asyncio.wait_for(reader.read(), 20.0)
                writer.close()
            assert sum(served.server.refused.values()) == 2 * ended and served.server.refused[reason] > 0
        for path in ("view", "input?page=%ff", "view?page=%00"):  # as it should, the names of pages too
            (await served.socket(path, cookie)).close()
        await served.until(lambda: not served.server.views and not served.server.inputs)
        assert sum(served.server.refused.values()) == 6

    asyncio.run(check())


def test_a_flood_of_requests_is_refused_and_a_stop_in_it_is_not(served: Served) -> None:
    async def check() -> None:
        view = await served.socket("view", await served.cookie())
        for _ in range(MAX_INPUT_RATE + 300):  # within a second of the server's clock, or more are taken
            view.write_message('{"pace": 1.0}')
        await view.write_message('{"stop": true}')
        await served.until(lambda: ("stop", True) in served.requests)
        assert len(served.requests) + served.server.refused["too_many"] == MAX_INPUT_RATE + 301

    asyncio.run(check())


def test_a_page_that_acknowledges_what_it_has_not_read_gets_no_more(served: Served) -> None:
    async def check() -> None:
        cookie = await served.cookie()
        view = await websocket_connect(HTTPRequest(
            f"ws://{served.host}/view", headers={"Cookie": cookie, "Origin": served.base}), max_message_size=1 << 30)
        view.protocol.stream.read_bytes = lambda *_: asyncio.Future()  # it never reads again
        await served.until(lambda: served.server.views)
        large = pack(STATE, 0.0, bytes(1 << 20))
        for k in range(1, 100):
            served.server.publish(STATE, large)
            await view.write_message(json.dumps({"ack": k}))
            await asyncio.sleep(0.01)
        assert served.server.views[0].unwritten() <= CREDIT

    asyncio.run(check())


def test_a_frozen_page_costs_the_others_nothing(served: Served) -> None:
    async def check() -> None:
        cookie = await served.cookie()
        frozen, live = await served.socket("view", cookie), await served.socket("view", cookie)
        await served.until(lambda: len(served.server.views) == 2)
        newest, received = 0.0, 0
        for k in range(300):
            served.server.publish(STATE, pack(STATE, float(k), [0.0] * 21))
            await asyncio.sleep(0.001)
            while received < k:
                message = await live.read_message()
                received += 1
                await live.write_message(json.dumps({"ack": received}))
                if isinstance(message, bytes):
                    newest = float(memoryview(message)[8:16].cast("B").cast("d")[0])
                    break
        assert newest > 250.0
        waiting = []
        while True:
            try:
                waiting.append(await asyncio.wait_for(asyncio.ensure_future(frozen.read_message()), 0.5))
            except asyncio.TimeoutError:
                break
        assert len(waiting) == 4

    asyncio.run(check())


def test_connections_have_a_limit_and_requests_a_time(monkeypatch: Any) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(server_module, "BODY_TIMEOUT", 0.5)
    served = Served()

    async def check() -> None:
        host, port = served.host.split(":")
        opened = [await asyncio.open_connection(host, int(port)) for _ in range(40)]
        ended = await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in opened[20:])), 10.0)
        assert ended == [b""] * 20
        for _, writer in opened[:20]:
            writer.write(b"POST /session HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
        await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in opened[:20])), 60.0)  # no body: closed by the server

    try:
        asyncio.run(check())
    finally:
        served.server.stop()


def test_only_the_driver_resumes(served: Served) -> None:
    async def check() -> None:
        cookie = await served.cookie()
        socket = await served.socket("input?page=1", cookie)
        number = served.server.next_number()
        for k, held in enumerate((False, True)):
            await socket.write_message(intent(k + 1, picture=number, held=held))
        await served.until(lambda: served.server.seat.driver is not None)
        driver = served.server.name_of("1")
        served.server.stop_seat()
        with pytest.raises(Refused, match=f"{driver} has the seat"):
            served.server.resume(served.server.name_of("2"))
        served.server.resume(driver)
        assert not served.server.seat.stopped and served.server.command(time.monotonic()) == (0.0, 0.0, 0.4)

    asyncio.run(check())


@pytest.mark.parametrize("settings, names", [
    ({}, {"127.0.0.1", "localhost", "[::1]"}),
    ({"address": "0.0.0.0", "insecure": True, "hosts": ["car.example"]}, {"car.example", "127.0.0.1"})])
def test_pages_may_call_the_machine_by_its_names(settings: dict[str, Any], names: set[str]) -> None:
    served = Served(**settings)
    try:
        assert names <= {host.rpartition(":")[0] for host in served.server.hosts} and "0.0.0.0" not in served.server.url
    finally:
        served.server.stop()


def test_what_is_kept_reaches_a_page_that_comes_later(served: Served) -> None:
    async def check() -> None:
        served.server.publish("vehicle", '{"kind":"vehicle","vehicle":"hmmwv"}', keep=True)
        view = await served.socket("view", await served.cookie())
        assert json.loads(await view.read_message() or "") == {"kind": "vehicle", "vehicle": "hmmwv"}

    asyncio.run(check())


@pytest.mark.parametrize("settings, words", [
    ({"address": "0.0.0.0"}, "give certificate and key"), ({"address": "192.0.2.1", "insecure": True}, "192.0.2.1 port"),
    ({"certificate": "/nowhere.pem"}, "certificate /nowhere.pem"), ({"address": "a..b", "insecure": True}, "a..b port"),
])
def test_an_address_that_cannot_be_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        CockpitServer(Seat(), lambda name, value, page: None, **settings).start()


def test_a_taken_port_is_refused(served: Served) -> None:
    with pytest.raises(InputError, match="in use"):
        CockpitServer(Seat(), lambda name, value, page: None, port=int(served.host.rpartition(":")[2])).start()


def test_vendored_files_are_those_that_were_published() -> None:
    vendor = PAGE / "vendor"
    record = json.loads((vendor / "VENDOR.json").read_text())
    hashes = {name: digest for package in record.values() for name, digest in package["files"].items()}
    assert set(hashes) | {"VENDOR.json"} == {path.name for path in vendor.iterdir()}
    for name, digest in hashes.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name


def test_own_scripts_are_short_and_load_nothing_from_elsewhere() -> None:
    for path in [*PAGE.glob("*.js"), *PAGE.glob("*.css"), *PAGE.glob("*.html")]:
        text = path.read_text()
        assert text.count("\n") < 300 and "http://" not in text and "https://" not in text, path.name
