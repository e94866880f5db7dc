"""The server of the explorer without a browser: its ports, pages that are closed, and how it ends."""

from __future__ import annotations

import re
import signal
import socket
import struct
import subprocess
import sys

import pytest

from mklref.exceptions import InvalidParameter
from mklref.explore import app, serve


def test_a_port_in_use_is_left_to_its_owner():
    with serve.listen(0) as first:
        port = first.getsockname()[1]
        with serve.listen(port) as second:
            assert port < second.getsockname()[1] <= port + serve.TRIED
            assert second.getsockname()[0] == "127.0.0.1"
    with pytest.raises(InvalidParameter, match="65535"):
        serve.listen(70000)


@pytest.mark.skipif(sys.platform == "win32", reason="a port would be shared there")
def test_a_port_whose_last_page_still_lingers_is_taken_again():
    with serve.listen(0) as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as page:
            answer, _ = first.accept()
            answer.close()  # the server ends first, and the connection lingers
            page.recv(1)
    with serve.listen(port) as second:
        assert second.getsockname()[1] == port


def asking(address, what):
    """A connection that has asked for it."""
    page = socket.create_connection(address)
    page.sendall(f"GET /{what} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n\r\n".encode())
    return page


def reset(page):
    page.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    page.close()


@pytest.mark.parametrize("fault", [ZeroDivisionError("ours"), None])
def test_a_fault_of_ours_is_shown_whether_the_page_is_closed_or_not_and_that_it_is_closed_is_none(
    monkeypatch, capsys, fault
):
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")

    with serve.Server(serve.listen(0), "token") as server:
        page = asking(server.server_address, "panels?access_token=token")

        def closed(*given):
            reset(page)
            if fault:
                raise fault
            yield "optimum", ""

        monkeypatch.setattr(app, "panels", closed)
        server.process_request_thread(*server.get_request())
    assert ("ZeroDivisionError: ours" in capsys.readouterr().err) is (fault is not None)


@pytest.mark.skipif(sys.platform == "win32", reason="no Ctrl-C for a process alone there")
def test_ctrl_c_ends_it_well_whatever_pages_do():
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    with subprocess.Popen(
        [sys.executable, "-m", "mklref", "explore", "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what runs in the background may ignore it
    ) as process:
        port, query = re.search(r":(\d+)/\?(\S+)", process.stdout.readline()).groups()
        pages = [asking(("127.0.0.1", int(port)), what) for what in (f"panels?{query}&page=a", f"panels?{query}", "")]
        assert all(page.recv(1) for page in pages)  # each has an answer, or its beginning
        reset(pages[0])
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    for own in pages:
        own.close()
    assert (process.returncode, err) == (0, "")
