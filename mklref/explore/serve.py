"""The server of the explorer: this machine alone, a token, and the next port where one is in use."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mklref.exceptions import InvalidParameter, MissingExtra

HOST = "127.0.0.1"
PORT = 2718
PATIENCE = 10
"""Seconds after which what a closed page was computing ends."""
TRIED = 20
"""Ports after the first that are tried."""


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
        marimo is not installed.
    InvalidParameter
        No port is free, or it is no port; no such data.
    """
    if data:
        _check(data)
    if find_spec("marimo") is None:
        raise MissingExtra("the explorer needs marimo; install it by: pip install 'mklref[explore]'.")
    listener = listen(port)
    token = secrets.token_urlsafe(16)
    query = urlencode({"access_token": token, **({"data": data} if data else {})})
    address = f"http://{HOST}:{listener.getsockname()[1]}/?{query}"
    with contextlib.suppress(KeyboardInterrupt), listener:
        # The socket listens already: a browser starts, and its request waits, while marimo is imported.
        sys.stdout.write(f"explorer: {address}\nCtrl-C ends it.\n")
        sys.stdout.flush()
        if browser:
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
        server = _server(token)
        # While the browser reads the scripts of the page, what its first cell needs is imported.
        threading.Thread(target=import_module, args=["mklref.explore.page"], daemon=True).start()
        server.run(sockets=[listener])


def _check(data: str) -> None:
    from mklref.explore.state import BUNDLED, GENERATED  # which need NumPy: whoever gives no data does not wait for it

    known = (*GENERATED, *BUNDLED)
    if data not in known and not Path(data).is_file():
        raise InvalidParameter(f"data = {data!r} is neither a file nor one of {', '.join(known)}; give a CSV file.")


def listen(port: int) -> socket.socket:
    """A socket on this machine alone, at the first free port from this one on.

    Raises
    ------
    InvalidParameter
        There is none among the next ones, or it is no port.
    """
    if not 0 <= port <= 65535:
        raise InvalidParameter(f"port = {port} must lie in [0, 65535]; 0 takes any that is free.")
    for number in range(port, min(port + TRIED, 65535) + 1):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.bind((HOST, number))
            listener.listen()
        except OSError:
            listener.close()
            continue
        return listener
    raise InvalidParameter(f"port = {port} is in use, and so are the next {TRIED}; give another by --port, or 0.")


def _server(token: str) -> Any:
    import marimo
    import uvicorn

    # What the cells of a page say that was closed meanwhile goes nowhere, and asyncio would say so for every line.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    page = Path(__file__).with_name("app.py")
    app = (
        marimo.create_asgi_app(quiet=True, token=token, session_ttl=PATIENCE).with_app(path="", root=str(page)).build()
    )

    class Server(uvicorn.Server):  # type: ignore[misc,unused-ignore]  # it has no types
        """Ends at the first Ctrl-C, and leaves no traceback."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            with contextlib.suppress(KeyboardInterrupt), super().capture_signals():
                yield

    return Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
