"""What the downloader says where settings are wrong, or where what answers is no Hub."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from fakes.hub import FakeHub
from fakes.hub_client import download

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """Yield the address of what answers all that is asked with 200 and this."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"{}", b"[]", b'{"siblings": 3}', b"1"])
def test_what_answers_and_is_no_hub_is_said_in_a_sentence(tmp_path: Path, body: bytes) -> None:
    with answering(body) as endpoint:
        done = download(endpoint, tmp_path)

    assert done.returncode == 1
    assert "cannot be fetched: what answers is no Hub (" in done.stderr
    assert "HF_ENDPOINT" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("HF_TOKEN", "hf_sécret", "HF_TOKEN has a character that no header can carry"),
        ("HTTPS_PROXY", "foo://me:PASSWORD@127.0.0.1:1", "foo://"),
        ("ALL_PROXY", "socks5://127.0.0.1:1", "socksio"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "abc", "'abc'; look at HF_HUB_DOWNLOAD_TIMEOUT"),
        ("SSL_CERT_FILE", "/nowhere/ca.pem", "SSL_CERT_FILE names a file that is not there"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    with FakeHub({"config.yaml": b"b: 2\n"}) as hub:
        done = download(hub, tmp_path, **{name: value})

    assert done.returncode == 1
    assert words in done.stderr
    assert name in done.stderr
    assert "PASSWORD" not in done.stderr
    assert "cret" not in done.stderr
    assert (done.stderr.count("error: "), done.stderr.count("\n")) == (1, 1)


def test_the_hubs_password_is_not_printed(tmp_path: Path) -> None:
    with FakeHub({"config.yaml": b"b: 2\n"}, status=500) as hub:
        done = download(hub.endpoint.replace("//", "//me:PASSWORD@"), tmp_path)

    assert done.returncode == 1
    assert "cannot be fetched: the Hub answered 500; " in done.stderr
    assert "PASSWORD" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_the_library_says_has_no_password_and_is_said_once(tmp_path: Path) -> None:
    with FakeHub({"config.yaml": b"b: 2\n"}, busy=[503, 503]) as hub:
        done = download(hub.endpoint.replace("//", "//me:PASSWORD@"), tmp_path)

    assert done.returncode == 0
    assert done.stderr.count("503 thrown while requesting HEAD http://127.0.0.1:") == 1
    assert "PASSWORD" not in done.stderr


def test_a_hub_that_refuses_a_file_is_told_by_its_status(tmp_path: Path) -> None:
    with FakeHub({"config.yaml": b"b: 2\n"}, busy=[418] * 9) as hub:
        done = download(hub, tmp_path)

    assert done.returncode == 1
    assert "cannot be fetched: the Hub answered 418; " in done.stderr
