"""The server of the cockpit's page: files, a session by token, a socket for the view, one for the driver's input, in its own thread.

Access control: loopback by default; another address needs a certificate, or `insecure`. Each request must name an expected
host (against DNS rebinding); a session needs the token of the printed URL; sockets need the session's cookie and an Origin of this server.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import secrets
import socket
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import tornado.httpserver
import tornado.netutil
import tornado.web
import tornado.websocket

from lfdm_ros.bounds import MALFORMED, OUT_OF_RANGE, TOO_MANY, Refused
from lfdm_ros.cockpit.seat import Intent, PageRate, Seat
from lfdm_ros.cockpit.wire import CREDIT, Outbox, pack_json
from lfdm_ros.errors import InputError
from lfdm_ros.teleop.hands_on import Command

PAGE = Path(__file__).parent / "page"
MAX_MESSAGE = 2000  # bytes from a page; longer messages close the socket
MAX_CLIENTS = 32  # views, and likewise inputs
MAX_CONNECTIONS = 200
BODY_TIMEOUT = 5.0  # [s]
_MAX_NAMES = 1000
_PICTURES = 1000  # states whose times are stored
_SEAT_PERIOD = 0.1  # [s] between two checks of the seat
_START_TIMEOUT = 10.0  # [s]
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
                               "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Permissions-Policy": "gamepad=(self), screen-wake-lock=(self)", "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-cache"}

# Handles a request of a page: its name and value, and the page's name. Raises Refused.
OnRequest = Callable[[str, Any, str], None]


class CockpitServer:
    """Serves the page; methods may be called from any thread. url: address with the token, to open in a browser; once `start` has returned.
    refused: number of refused connections and messages, by reason. on_input: called after each accepted input, in the server's thread."""

    def __init__(self, seat: Seat, on_request: OnRequest, *, address: str = "127.0.0.1", port: int = 0, certificate: str = "",
                 key: str = "", insecure: bool = False, hosts: Sequence[str] = (),
                 on_refusal: Callable[[Refused], None] = lambda error: None) -> None:
        """
        Creates a server that does not listen yet.

        Args:
            port: 0: any free one. certificate, key: PEM files for https; empty: http.
            insecure: http on an address that other machines reach.
            hosts: further allowed host names of this machine.

        Raises:
            InputError: an address that needs a certificate has none, or a certificate that cannot be read.
        """
        self.seat, self.on_request, self._on_refusal = seat, on_request, on_refusal
        self.refused: Counter[str] = Counter()
        self.views: list[_View] = []
        self.token, self.session = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        self._address, self._port, self._names = address, port, tuple(hosts)
        self.page_names: dict[str, str] = {}
        self._page_numbers = count(1)
        self.inputs = 0
        self._pending: dict[int | str, bytes | str] = {}
        self._tls = _tls(address, certificate, key, insecure)
        self._number = 0
        self._pictures: deque[float] = deque(maxlen=_PICTURES)
        self._retained: dict[int | str, bytes | str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="cockpit server", daemon=True)
        self._started = threading.Event()
        self._failure: Exception | None = None
        self.url, self.hosts = "", frozenset[str]()
        self.on_input: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Starts listening. Raises InputError: the port is taken, or the address is not of this machine."""
        self._thread.start()
        if not self._started.wait(_START_TIMEOUT) or self._failure is not None:
            raise InputError(f"cockpit: {self._address} port {self._port}: {self._failure or 'the server does not start'}")

    def stop(self) -> None:
        """Closes all connections and ends the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def command(self, now: float) -> Command | None:
        """Returns the command of the seat at a time [s] of time.monotonic; None: none."""
        with self._lock:
            return self.seat.command(now)

    def stop_seat(self) -> None:
        """Brakes fully until `resume`."""
        with self._lock:
            self.seat.stop()

    def resume(self, page: str) -> None:
        """Ends a stop. Raises Refused: another page has the seat."""
        with self._lock:
            if self.seat.driver is not None and self.seat.name(self.seat.driver) != page:
                raise Refused(f"{self.seat.name(self.seat.driver)} has the seat: it resumes")
            self.seat.resume()

    def disarm(self) -> None:
        """Requires the driver to release all inputs before driving on."""
        with self._lock:
            self.seat.disarm()

    def next_number(self) -> int:
        """Returns the number of the next state and records its time."""
        with self._lock:
            self._number += 1
            self._pictures.append(time.monotonic())
            return self._number

    def publish(self, kind: int | str, message: bytes | str, *, keep: bool = False) -> None:
        """Sends a message to all pages; keep: also to later ones. Only the newest of each kind is queued."""
        with self._lock:
            if keep:
                self._retained[kind] = message
            if not self.views:
                return
            waits = bool(self._pending)
            self._pending[kind] = message
        if not waits:
            with suppress(RuntimeError):  # the server has stopped
                self._loop.call_soon_threadsafe(self._flush)

    def refuse(self, error: Refused) -> None:
        self.refused[error.reason] += 1
        self._on_refusal(error)

    def picture_age(self, number: int) -> float:
        """Returns the age [s] of a state by its number; infinite if unknown."""
        with self._lock:
            back = self._number - number
            return time.monotonic() - self._pictures[-1 - back] if 0 <= back < len(self._pictures) else float("inf")

    def take(self, client: int, text: str | bytes) -> None:
        """Processes an input of a client; refusals are counted."""
        try:
            intent = Intent.parse(text)
            age = self.picture_age(intent.picture)
            with self._lock:
                self.seat.take(client, time.monotonic(), intent, age)
            self.on_input()
        except Refused as error:
            self.refuse(error)

    def enter(self, client: int, name: str) -> None:
        with self._lock:
            self.seat.enter(client, name)

    def leave(self, client: int) -> None:
        with self._lock:
            self.seat.leave(client)

    def open_view(self, view: _View) -> None:
        """Sends a new page all stored messages, then new ones."""
        with self._lock:
            self.views.append(view)
            retained = list(self._retained.items())
        for kind, message in retained:
            view.offer(kind, message)

    def name_of(self, page: str) -> str:
        """Returns the short name of a page by its self-chosen number."""
        if page not in self.page_names and len(self.page_names) >= _MAX_NAMES:
            self.page_names.pop(next(iter(self.page_names)))
        if page not in self.page_names:
            self.page_names[page] = f"page {next(self._page_numbers)}"
        return self.page_names[page]

    def _flush(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, {}
        for kind, message in pending.items():
            for view in list(self.views):
                view.offer(kind, message)

    def _publish_seat(self) -> None:
        with self._lock:
            driver, reason, stopped = self.seat.driver, self.seat.reason, self.seat.stopped
            name, drives = self.seat.name(driver), self.seat.drives(time.monotonic())
        for view in self.views:
            status = pack_json("seat", {
                "driver": name, "drives": drives, "reason": reason, "stopped": stopped, "yours": name == view.name,
                "pages": len(self.views), "refused": sum(self.refused.values())})
            if status != view.seat_text:
                view.seat_text = status
                view.offer("seat", status)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            sockets = tornado.netutil.bind_sockets(self._port, self._address)
            self._port = sockets[0].getsockname()[1]
            scheme = "https" if self._tls else "http"
            shown = f"[{self._address}]" if ":" in self._address else self._address
            names = [shown, *self._names, *_addresses(self._address)]
            usual = {"http": 80, "https": 443}[scheme] == self._port  # browsers leave it out
            self.hosts = frozenset({f"{name}:{self._port}" for name in names} | set(names if usual else ()))
            host = next((name for name in names if name not in ("0.0.0.0", "[::]")), shown)
            self.url = f"{scheme}://{host}:{self._port}/#token={self.token}"
            application = tornado.web.Application(
                [("/session", _Session), ("/view", _View), ("/input", _Input),
                 ("/(.*)", _Page, {"path": str(PAGE), "default_filename": "index.html"})],
                cockpit=self, websocket_max_message_size=MAX_MESSAGE,
                websocket_ping_interval=5.0, websocket_ping_timeout=5.0, log_function=lambda handler: None)
            server = _Server(application, ssl_options=self._tls, max_body_size=MAX_MESSAGE, max_header_size=16_384,
                             body_timeout=BODY_TIMEOUT, idle_connection_timeout=10.0)
            server.add_sockets(sockets)
        except Exception as error:
            self._failure = error
            self._started.set()
            self._loop.close()
            return
        self._loop.call_later(_SEAT_PERIOD, self._periodic)
        self._loop.call_soon(self._started.set)
        self._loop.run_forever()
        server.stop()
        for view in list(self.views):
            view.close()
        self.views.clear()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(server.close_all_connections())
        self._loop.close()

    def _periodic(self) -> None:
        self._publish_seat()
        self._loop.call_later(_SEAT_PERIOD, self._periodic)


class _Server(tornado.httpserver.HTTPServer):
    """A server that limits connections, to protect the process's file descriptors."""

    def handle_stream(self, stream: Any, address: Any) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            stream.close()
        else:
            super().handle_stream(stream, address)


def _addresses(address: str) -> list[str]:
    """Lists the host names of a server that listens on an address."""
    if _is_loopback(address):
        return ["localhost", "127.0.0.1", "[::1]"]
    if address not in ("0.0.0.0", "::", ""):
        return []
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing: the system chooses the interface that leads outside
        found.append(probe.getsockname()[0])
    name = socket.gethostname()
    with suppress(OSError):
        found += [str(entry[4][0]) for entry in socket.getaddrinfo(name, None, socket.AF_INET)]
    return [*dict.fromkeys(found), name, "localhost", "127.0.0.1"]


def _is_loopback(address: str) -> bool:
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _tls(address: str, certificate: str, key: str, insecure: bool) -> ssl.SSLContext | None:
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(certificate, key or None)
        except OSError as error:
            raise InputError(f"cockpit: certificate {certificate}, key {key or 'in it'}: {error}") from None
        return context
    if not _is_loopback(address) and not insecure:
        raise InputError(f"cockpit: {address} is reached by other machines, and http shows them the token: give certificate and key, or "
                         "keep 127.0.0.1 and use ssh -L; insecure: true allows it all the same")
    return None


class _Checked(tornado.web.RequestHandler):
    """A handler that refuses foreign hosts."""

    @property
    def cockpit(self) -> CockpitServer:
        return self.settings["cockpit"]

    @property
    def cookie_name(self) -> str:
        """Name of the session's cookie, with the port, since browsers share cookies among ports of a host."""
        return f"lfdm_{self.request.host.rpartition(':')[2]}"

    def prepare(self) -> None:
        if self.request.host not in self.cockpit.hosts:
            self.deny(f"host {self.request.host[:60]!r}")

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def deny(self, text: str) -> None:
        """Answers 403 and counts it."""
        self.cockpit.refuse(Refused(f"a connection with {text}", "access"))
        self.set_status(403)
        self.finish(f"refused: {text}\n")

    def is_foreign(self) -> bool:
        """Checks that a request does not come from a page of this server."""
        return self.request.headers.get("Origin", "") != f"{self.request.protocol}://{self.request.host}"

    def deny_origin(self) -> None:
        """Answers 403 to a foreign page, and counts it."""
        self.deny(f"origin {self.request.headers.get('Origin', '')[:60]!r}")

    def has_session(self) -> bool:
        return hmac.compare_digest((self.get_cookie(self.cookie_name, "") or "").encode(), self.cockpit.session.encode())


class _Page(_Checked, tornado.web.StaticFileHandler):
    """Files of the page, which hold no secret."""

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:
        if "\0" in absolute_path:  # an error of the operating system
            raise tornado.web.HTTPError(404)
        return super().validate_absolute_path(root, absolute_path)

    def set_extra_headers(self, path: str) -> None:
        self.set_default_headers()


class _Session(_Checked):
    """Exchanges the URL's token for a cookie that scripts cannot read."""

    def post(self) -> None:
        if self.is_foreign():
            self.deny_origin()
        elif self.has_session():
            self.set_status(204)
        elif not hmac.compare_digest(self.request.body, self.cockpit.token.encode()):
            self.deny("a wrong token, or none")
        else:
            self.set_cookie(self.cookie_name, self.cockpit.session, httponly=True, samesite="Strict",
                            secure=self.request.protocol == "https")
            self.set_status(204)


_TOO_BIG = 1009  # RFC 6455


class _Protocol(tornado.websocket.WebSocketProtocol13):
    """Counts connections that tornado ends silently: invalid frames, messages that are too long."""

    handler: _Socket

    def _abort(self) -> None:
        # Closed stream: the page is closed. Waiting: the page does not answer a close.
        if self.stream is not None and not self.stream.closed() and not self.client_terminated and self._waiting is None:
            self.handler.cockpit.refuse(Refused("a frame that is none: the connection ends", MALFORMED))
        super()._abort()

    def close(self, code: int | None = None, reason: str | None = None) -> None:
        if code == _TOO_BIG and not self.client_terminated:
            self.handler.cockpit.refuse(Refused(f"a message of more than {MAX_MESSAGE} bytes: the connection ends", TOO_MANY))
        super().close(code, reason)


class _Socket(_Checked, tornado.websocket.WebSocketHandler):
    """A socket of a page with a session. page: self-chosen number of the page, the same on both sockets."""

    def others(self) -> int:
        """Returns the number of open sockets of this kind."""
        raise NotImplementedError

    @property
    def page_name(self) -> str:
        given = self.request.query_arguments.get("page", [b""])[0][:40].decode(errors="replace")
        return self.cockpit.name_of(given or secrets.token_hex(8))

    def prepare(self) -> None:
        super().prepare()
        if not self._finished and self.is_foreign():
            self.deny_origin()
        elif not self._finished and not self.has_session():
            self.deny("no session")
        elif not self._finished and self.others() >= MAX_CLIENTS:
            self.deny("too many pages")

    def get_websocket_protocol(self) -> tornado.websocket.WebSocketProtocol | None:
        usual = super().get_websocket_protocol()
        return _Protocol(self, False, usual.params) if isinstance(usual, tornado.websocket.WebSocketProtocol13) else usual

    def check_origin(self, origin: str) -> bool:
        return True  # `prepare` has

    def open(self) -> None:
        self.set_nodelay(True)


class _View(_Socket):
    """Sends the view; receives acknowledgements and requests."""

    _writes: deque[asyncio.Future[None]] = deque()  # before `open`
    seat_text = ""  # last sent status of the seat

    def others(self) -> int:
        return len(self.cockpit.views)

    def open(self) -> None:
        super().open()
        self.name, self._outbox, self._writes, self._rate = self.page_name, Outbox(), deque(), PageRate()
        self.cockpit.open_view(self)

    def offer(self, kind: int | str, message: bytes | str) -> None:
        """Sends a message, now or as soon as the page keeps up."""
        self._outbox.offer(kind, message)
        self._send()

    def _send(self) -> None:
        # Also limits unwritten messages, if a page acknowledges without reading.
        while self.unwritten() < CREDIT and (due := self._outbox.take()) is not None:
            try:
                written = self.write_message(due[1], binary=isinstance(due[1], bytes))
            except tornado.websocket.WebSocketClosedError:
                return
            # `on_close` handles a page that leaves. A callback for each write would cost a turn of the loop.
            self._writes.append(asyncio.ensure_future(written))

    def unwritten(self) -> int:
        while self._writes and self._writes[0].done():
            _settle(self._writes.popleft())
        return len(self._writes)

    def on_message(self, text: str | bytes) -> None:
        try:
            name, value = _request(text)
            if name == "ack":
                self._outbox.acknowledge(value)
                self._send()
            else:
                if name != "stop":
                    self._rate.check(time.monotonic())
                self.cockpit.on_request(name, value, self.name)
        except Refused as error:
            self.cockpit.refuse(error)

    def on_close(self) -> None:
        for write in self._writes:
            write.add_done_callback(_settle)
        if self in self.cockpit.views:
            self.cockpit.views.remove(self)


def _settle(write: asyncio.Future[None]) -> None:
    """Retrieves the outcome of a write, to avoid asyncio's warning."""
    if not write.cancelled():
        write.exception()


class _Input(_Socket):
    """Receives the inputs of a page, a client of the seat."""

    _last = 0

    def others(self) -> int:
        return self.cockpit.inputs

    def open(self) -> None:
        super().open()
        _Input._last += 1
        self._client = _Input._last
        self.cockpit.inputs += 1
        self.cockpit.enter(self._client, self.page_name)

    def on_message(self, text: str | bytes) -> None:
        self.cockpit.take(self._client, text)

    def on_close(self) -> None:
        if hasattr(self, "_client"):
            self.cockpit.inputs -= 1
            self.cockpit.leave(self._client)


def _request(text: str | bytes) -> tuple[str, Any]:
    """Reads {"NAME": VALUE}. Raises Refused."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("a request that is not JSON", MALFORMED) from None
    if not isinstance(data, dict) or len(data) != 1:
        raise Refused("a request is an object with one key", MALFORMED)
    (name, value), = data.items()
    if name == "ack" and type(value) is not int:
        raise Refused("ack is a whole number", OUT_OF_RANGE)
    return name, value
