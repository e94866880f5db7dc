"""The server of the explorer: this machine alone, a token, and the next port where one is in use."""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import socket
import sys
import threading
import webbrowser
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from mklref.exceptions import InvalidParameter, MissingExtra

HOST = "127.0.0.1"
PORT = 2718
TRIED = 20
"""Ports after the first that are tried."""
PAGES = 32
"""Open pages that are remembered."""
POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may do: its own script, and requests to this server. Whoever drives a browser evaluates strings in it;
nothing that the page is given is evaluated."""


def explore(port: int = PORT, *, browser: bool = True, data: str | None = None) -> None:
    """Serve the explorer until Ctrl-C.

    Parameters
    ----------
    port : int
        Where to listen; the next free one if it is in use. 0 for any.
    browser : bool
        Whether to open it.
    data : str, optional
        "moons", "rings", "toy", a bundled data set, or a CSV file.

    Raises
    ------
    MissingExtra
        What draws formulas and code is not installed.
    InvalidParameter
        No port is free, or it is no port; no such data.
    """
    if data:
        _check(data)
    for module in ("math_core", "pygments"):
        if find_spec(module) is None:
            raise MissingExtra(f"the explorer needs {module}; install it by: pip install 'mklref[explore]'.")
    listener = listen(port)
    token = secrets.token_urlsafe(16)
    query = urlencode({"access_token": token, **({"data": data} if data else {})})
    address = f"http://{HOST}:{listener.getsockname()[1]}/?{query}"
    with contextlib.suppress(KeyboardInterrupt), listener:
        # The socket listens already: a browser starts, and its request waits, while the library is imported.
        sys.stdout.write(f"explorer: {address}\nCtrl-C ends it.\n")
        sys.stdout.flush()
        if browser:
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
        import_module("mklref.explore.app")
        Server(listener, token, data).serve_forever(poll_interval=0.1)


def _check(data: str) -> None:
    from mklref._files import SUFFIXES, ending  # these need NumPy: who gives no data does not wait for it
    from mklref.explore.state import BUNDLED, GENERATED

    known = (*GENERATED, *BUNDLED)
    if data not in known and (not Path(data).is_file() or ending(data) in SUFFIXES):
        what = "no table" if Path(data).exists() else "no file that is there"
        raise InvalidParameter(f"data = {data!r} is {what}, and not one of {', '.join(known)}; give a CSV file.")


def listen(port: int) -> socket.socket:
    """A socket on this machine alone, at the first free port from this one on, or `InvalidParameter`."""
    if not 0 <= port <= 65535:
        raise InvalidParameter(f"port = {port} must lie in [0, 65535]; 0 takes any that is free.")
    for number in range(port, min(port + TRIED, 65535) + 1):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if sys.platform != "win32":  # a port whose last connections still linger is free; there it would be shared
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, number))
            listener.listen()
        except OSError:
            listener.close()
            continue
        return listener
    raise InvalidParameter(f"port = {port} is in use, and so are the next {TRIED}; give another by --port, or 0.")


class Server(ThreadingHTTPServer):
    """Answers whoever has the token, at a socket that listens already; each request in a thread of its own."""

    def __init__(self, listener: socket.socket, token: str, data: str | None = None):
        super().__init__(listener.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.token, self.data = listener, token, data
        self.hosts = {f"{name}:{listener.getsockname()[1]}" for name in (HOST, "localhost")}
        self.pages: OrderedDict[str, Page] = OrderedDict()
        self.turn = threading.Lock()

    def ask(self, name: str, gone: Callable[[], bool]) -> tuple[dict[str, Any], Callable[[], bool]]:
        """Begin an answer: what is remembered of its page, and whether it has asked anew since, or is gone."""
        with self.turn:
            page = self.pages.setdefault(name, Page())
            self.pages.move_to_end(name)
            while len(self.pages) > PAGES:
                self.pages.popitem(last=False)
            page.asked += 1
            mine = page.asked
            return page.memory, lambda: page.asked != mine or gone()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever is gone needs no answer; anything else is a fault of ours, and its traceback is shown."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class Page:
    """An open page: its last good picture, and how often it has asked."""

    def __init__(self) -> None:
        self.memory: dict[str, Any] = {}
        self.asked = 0


class Handler(BaseHTTPRequestHandler):
    """A request: the page, its font, or panels as lines of JSON, each as soon as it is known."""

    server: Server
    timeout = 60
    """Seconds for a request to be said whole."""
    error_content_type, error_message_format = "text/plain", "%(message)s: %(explain)s."
    """What the page shows of an answer that it did not expect, such as to a text too long for an address."""

    def do_GET(self) -> None:
        """Answer it, if it names this machine and has the token."""
        path, _, said = self.path.partition("?")
        query = dict(parse_qsl(said, keep_blank_values=True))
        token = query.pop("access_token", "")
        # A name of somebody else that resolves to this machine is no name of this server.
        if self.headers.get("Host") not in self.server.hosts:
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", f"This is a page of {HOST} alone.")
        elif path == "/math.ttf":  # no secret, and style sheets know no token
            self._font()
        elif not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "Open the address, token and all, that the command says.")
        elif path == "/":
            self._whole(query)
        elif path == "/panels":
            self._panels(query)
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "There is nothing here.")

    def _whole(self, query: dict[str, str]) -> None:
        from mklref.explore import app, walk, work
        from mklref.explore.state import State

        walk.reached.cache_clear()
        work.forget()  # whoever loads the page again may have changed the file
        nonce = secrets.token_urlsafe(16)
        whole = app.whole(State.from_query(query), nonce, self.server.data)
        self._answer(HTTPStatus.OK, "text/html", whole, {"Content-Security-Policy": POLICY.format(nonce=nonce)})

    def _panels(self, query: dict[str, str]) -> None:
        from mklref.explore import app
        from mklref.explore.state import State

        memory, stopped = self.server.ask(query.pop("page", ""), self._gone)
        self._head(HTTPStatus.OK, "application/x-ndjson")
        try:
            for panel in app.panels(State.from_query(query), memory, stopped):
                self._line(*panel)
            self._line("end", "")  # without it the page says that something is missing
        except (ConnectionError, TimeoutError):
            raise  # the page has asked anew, is closed, or reads no more
        except Exception as wrong:
            with contextlib.suppress(ConnectionError, TimeoutError):  # nobody is there to be told; the traceback is
                self._line("fault", f"{type(wrong).__name__}: {wrong}")
            raise

    def _line(self, name: str, html: str) -> None:
        self.wfile.write(json.dumps((name, html)).encode() + b"\n")

    def _gone(self) -> bool:
        """Whether the browser has closed the connection: nothing comes from it any more, and it can be read."""
        try:
            readable, *_ = select.select([self.connection], [], [], 0)
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    def _font(self) -> None:
        """A font with a table for mathematics, where it is installed; otherwise browsers take what they have."""
        font = find_spec("ziamath")
        if font is None or font.origin is None:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "ziamath, which has the font, is not installed.")
            return
        path = Path(font.origin).with_name("fonts") / "STIXTwoMath-Regular.ttf"
        self._answer(HTTPStatus.OK, "font/ttf", path.read_bytes(), {"Cache-Control": "max-age=86400"})

    def _answer(self, status: HTTPStatus, kind: str, body: str | bytes, also: dict[str, str] | None = None) -> None:
        content = body.encode() if isinstance(body, str) else body
        self._head(status, kind, {"Content-Length": str(len(content)), **(also or {})})
        self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, also: dict[str, str] | None = None) -> None:
        headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
        text = "; charset=utf-8" if kind.startswith("text/") else ""
        self.send_response(status)
        for name, value in (headers | {"Content-Type": kind + text} | (also or {})).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing: the terminal belongs to whoever started it."""
