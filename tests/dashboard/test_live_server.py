"""The server: on loopback alone, below a path that cannot be guessed."""

import asyncio
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


def while_served(check, look=splitting, port=0):
    """Call `check` with the address of a page, in a thread, while the page is served."""

    async def serve():
        async with live_page(look, port) as address:
            return await asyncio.to_thread(check, address)

    return asyncio.run(serve())


def status_of(address):
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_the_page_is_served_on_loopback_below_a_secret_path(monkeypatch):
    monkeypatch.setenv("BOKEH_RESOURCES", "cdn")  # must not count

    def check(served):
        at = urllib.parse.urlsplit(served)
        assert at.hostname == LOOPBACK
        assert len(at.path) > 20
        with urllib.request.urlopen(served, timeout=60) as answer:
            html = answer.read().decode()
        loaded = read_page(html)
        assert loaded.addresses
        assert all(one.startswith(("/static/", "static/", "data:")) for one in loaded.addresses)
        for address in loaded.addresses:
            if not address.startswith("data:"):
                assert status_of(urllib.parse.urljoin(served, address)) == 200
        assert status_of(f"http://{at.netloc}/") == 404
        assert "Load per worker over time" in html
        # Other addresses of this machine are not listened on.
        with socket.socket() as other:
            other.settimeout(5)
            assert other.connect_ex(("127.0.0.2", at.port)) != 0
        return served

    address = while_served(check)
    with pytest.raises(OSError, match="refused"):  # the server has ended with the block
        urllib.request.urlopen(address, timeout=5)


@pytest.mark.parametrize(("origin", "code"), [("http://evil.example", 403), (None, 101)])
def test_pages_of_other_sites_cannot_connect(origin, code):
    def check(address):
        at = urllib.parse.urlsplit(address)
        connection = http.client.HTTPConnection(at.netloc, timeout=60)
        connection.request("GET", at.path)
        html = connection.getresponse().read().decode()
        token = json.loads('"' + html.split('"token":"')[1].split('"')[0] + '"')
        headers = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "c2tld2xlc3Mgc2tld2xlcw==",
            "Sec-WebSocket-Protocol": f"bokeh, {token}",
            "Origin": origin or f"http://{at.netloc}",
        }
        connection.request("GET", f"{at.path}/ws", headers=headers)
        assert connection.getresponse().status == code
        connection.close()

    while_served(check)


@pytest.mark.parametrize(
    ("host", "code"),
    [("evil.example", 404), ("127.0.0.1.evil.example", 404), ("localhost", 200), (LOOPBACK, 200)],
)
def test_only_names_of_this_machine_are_answered(host, code):
    """A site whose name leads to 127.0.0.1 would be of one origin with the page: DNS rebinding."""

    def check(address):
        at = urllib.parse.urlsplit(address)
        for path in (at.path, "/static/js/bokeh.min.js"):
            with contextlib.closing(http.client.HTTPConnection(at.netloc)) as connection:
                connection.request("GET", path, headers={"Host": f"{host}:{at.port}"})
                assert connection.getresponse().status == code

    while_served(check)


def test_a_port_that_is_taken_is_refused_in_one_line():
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"--port {port} cannot be used: .*in use"):
            while_served(None, port=port)


def test_any_error_of_looking_is_shown_and_the_page_goes_on(caplog):
    def fail():
        raise KeyError("lost")

    known = splitting()
    assert live_server._looked(splitting, known) is known  # nothing new
    lost = live_server._looked(fail, known)
    assert lost == known | {"problem": "KeyError: 'lost'"}
    assert live_server._looked(fail, lost) is lost
    assert len(caplog.records) == 1
    assert live_server._looked(splitting, lost)["problem"] is None


def test_it_looks_again_and_again(monkeypatch):
    monkeypatch.setattr(live_server, "_LOOK_EVERY_S", 0.01)
    looked = []

    def look():
        looked.append(splitting())
        return looked[-1]

    async def serve():
        async with live_page(look):
            while len(looked) < 4:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(serve(), 60))
