"""The server: on loopback alone, below a path that cannot be guessed."""

import contextlib
import http.client
import json
import socket
import urllib.error
import urllib.parse
import urllib.request

import pytest

pytest.importorskip("bokeh", reason="the page is drawn by Bokeh")

from dashboard.histories import splitting
from dashboard.pages import read_page
from skewless.dashboard import live_server
from skewless.dashboard.live_server import LOOPBACK, live_page


def status_of(address):
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_the_page_is_served_on_loopback_below_a_secret_path(monkeypatch):
    monkeypatch.setenv("BOKEH_RESOURCES", "cdn")  # must not count
    with live_page(splitting) as page:
        at = urllib.parse.urlsplit(page.address)
        assert (at.hostname, at.port) == (LOOPBACK, page.port)
        assert len(at.path) > 20
        with urllib.request.urlopen(page.address, timeout=60) as answer:
            html = answer.read().decode()
        loaded = read_page(html)
        assert loaded.addresses
        assert all(one.startswith(("/static/", "static/", "data:")) for one in loaded.addresses)
        for address in loaded.addresses:
            if not address.startswith("data:"):
                assert status_of(urllib.parse.urljoin(page.address, address)) == 200
        assert status_of(f"http://{LOOPBACK}:{page.port}/") == 404
        assert "Load per worker over time" in html
        # Other addresses of this machine are not listened on.
        with socket.socket() as other:
            other.settimeout(5)
            assert other.connect_ex(("127.0.0.2", page.port)) != 0
    with pytest.raises(OSError, match="refused"):  # the server has ended with the block
        urllib.request.urlopen(page.address, timeout=5)


@pytest.mark.parametrize(("origin", "code"), [("http://evil.example", 403), (None, 101)])
def test_pages_of_other_sites_cannot_connect(origin, code):
    with live_page(splitting) as page:
        connection = http.client.HTTPConnection(LOOPBACK, page.port, timeout=60)
        path = urllib.parse.urlsplit(page.address).path
        connection.request("GET", path)
        html = connection.getresponse().read().decode()
        token = json.loads('"' + html.split('"token":"')[1].split('"')[0] + '"')
        headers = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "c2tld2xlc3Mgc2tld2xlcw==",
            "Sec-WebSocket-Protocol": f"bokeh, {token}",
            "Origin": origin or f"http://{LOOPBACK}:{page.port}",
        }
        connection.request("GET", f"{path}/ws", headers=headers)
        assert connection.getresponse().status == code
        connection.close()


@pytest.mark.parametrize(
    ("host", "code"),
    [("evil.example", 404), ("127.0.0.1.evil.example", 404), ("localhost", 200), (LOOPBACK, 200)],
)
def test_only_names_of_this_machine_are_answered(host, code):
    """A site whose name leads to 127.0.0.1 would be of one origin with the page: DNS rebinding."""
    with live_page(splitting) as page:
        for path in (urllib.parse.urlsplit(page.address).path, "/static/js/bokeh.min.js"):
            with contextlib.closing(http.client.HTTPConnection(LOOPBACK, page.port)) as connection:
                connection.request("GET", path, headers={"Host": f"{host}:{page.port}"})
                assert connection.getresponse().status == code


def test_a_port_that_is_taken_is_refused_in_one_line():
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"--port {port} cannot be used: .*in use"):
            live_page(splitting, port).__enter__()


def test_any_error_of_looking_is_shown_and_the_page_goes_on(monkeypatch, caplog):
    monkeypatch.setattr(live_server, "_LOOK_EVERY_S", 0.001)
    server, looks = None, []

    def look():
        looks.append(None if server is None else server._history["problem"])
        if 2 <= len(looks) <= 4:
            raise KeyError("lost")
        if len(looks) == 6:
            server._is_over.set()
        return splitting()

    server = live_server._Server(look, 0)
    server._look_again()
    assert looks[1:] == [None, "KeyError: 'lost'", "KeyError: 'lost'", "KeyError: 'lost'", None]
    assert server._history["problem"] is None
    assert len(caplog.records) == 1


def test_a_page_that_does_not_start_in_time_leaves_nothing(monkeypatch):
    monkeypatch.setattr(live_server, "_START_WITHIN_S", 0.01)
    made = live_server.BokehTornado

    def slow(*given, **named):
        server._is_over.wait(30.0)
        return made(*given, **named)

    monkeypatch.setattr(live_server, "BokehTornado", slow)
    server = live_server._Server(splitting, 0)
    with pytest.raises(OSError, match="did not start within"):
        server.start()
    assert not any(thread.is_alive() for thread in server._threads)
    with socket.socket() as other:
        assert other.connect_ex((LOOPBACK, server.port)) != 0
