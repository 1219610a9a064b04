"""Where the Tritons are: what is found, what changes it, what if it cannot be told."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from fakes.clock import Clock
from gateway.backend.addresses import Address, Defaults, DiscoveryError
from gateway.backend.discovery.dns import GONE_SECONDS, DnsReader, resolve_all
from gateway.backend.discovery.file import FileReader
from gateway.backend.discovery.source import Polled, check_distinct
from gateway.backend.discovery.static import StaticSource

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.backend.discovery.source import Addresses, AddressSource

DEFAULTS = Defaults(capacity=4)
NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
TRY_AGAIN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


class Steps:
    """A Reader that gives one thing after the other, then the last again."""

    def __init__(self, *steps: Addresses | Exception) -> None:
        self.steps = list(steps)

    async def read(self) -> Addresses:
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        return step


def address(name: str, **fields: Any) -> Address:
    return Address(name, "127.0.0.1", 8001, **fields)


def names(found: Addresses) -> list[str]:
    return [one.id for one in found]


async def first(source: AddressSource, count: int) -> list[list[str]]:
    """Return the names of the first sets that a source yields."""
    sets = []
    async with aclosing(source.watch()) as found:
        async for addresses in found:
            sets.append(names(addresses))
            if len(sets) == count:
                break
    return sets


def test_a_static_set_is_told_once() -> None:
    source = StaticSource((address("a"), address("b")))

    assert asyncio.run(first(source, 2)) == [["a", "b"]]


def test_only_changes_are_told_and_an_error_keeps_the_last() -> None:
    one, two = (address("a"),), (address("b"), address("a"))
    reader = Steps(one, one, DiscoveryError("broken"), two[::-1], two, ())
    source = Polled(reader, 0.0)

    assert asyncio.run(first(source, 3)) == [["a"], ["a", "b"], []]


def test_a_fault_in_one_reading_is_logged_and_the_next_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Polled(Steps((address("a"),), RuntimeError("boom"), (address("b"),)), 0.0)

    assert asyncio.run(first(source, 2)) == [["a"], ["b"]]
    assert "boom" in caplog.text


def test_why_the_addresses_cannot_be_told_is_said_while_it_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = DiscoveryError("tritons.toml cannot be read")
    reader = Steps(broken, broken, broken, (address("a"),))
    source = Polled(reader, 0.0)
    problems = []
    read = reader.read

    async def look() -> Addresses:
        problems.append(source.problem)
        return await read()

    reader.read = look  # type: ignore[method-assign]
    asyncio.run(first(source, 1))

    assert problems == ["", *["tritons.toml cannot be read"] * 3]
    assert source.problem == ""
    reasons = [vars(r)["fields"]["reason"] for r in caplog.records if "failed" in r.message]
    assert reasons == ["tritons.toml cannot be read"]


def test_two_of_the_same_name_are_an_error() -> None:
    with pytest.raises(DiscoveryError, match="the name 'a' is there twice"):
        check_distinct((address("a"), address("b"), address("a")))


def test_a_file_says_what_the_settings_do_not(tmp_path: Path) -> None:
    file = tmp_path / "tritons.toml"
    file.write_text(
        """
        [[replica]]
        address = "10.0.0.1:8001"
        [[replica]]
        id = "raw"
        address = "r3.modal.host:41234"
        tls = "private"
        server_name = "triton.internal"
        capacity = 8
        metadata = { modal-key = "correct-horse" }
        """,
        "utf-8",
    )

    plain, raw = asyncio.run(FileReader(file, DEFAULTS).read())

    assert plain == Address("10.0.0.1:8001", "10.0.0.1", 8001, capacity=4)
    assert raw == Address(
        "raw",
        "r3.modal.host",
        41234,
        "private",
        "triton.internal",
        (("modal-key", "correct-horse"),),
        8,
    )
    assert "correct-horse" not in repr(raw)


def test_json_is_read_too(tmp_path: Path) -> None:
    file = tmp_path / "tritons.json"
    file.write_text(json.dumps({"replica": [{"address": "[::1]:8001"}]}), "utf-8")

    [one] = asyncio.run(FileReader(file, DEFAULTS).read())

    assert (one.id, one.host, one.port, one.target) == ("[::1]:8001", "::1", 8001, "[::1]:8001")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[replica]", "cannot be read"),
        ("", "must be [[replica]] tables"),
        ('[[replicas]]\naddress = "a:1"', "'replicas' is no key of it; there is one: `replica`"),
        ('[[replica]]\naddress = "a:1"\n[defaults]\ntls = "off"', "'defaults' is no key of it"),
        ('replica = "10.0.0.1:8001"', "must be [[replica]] tables"),
        ('[[replica]]\nid = "a"', "replica 1: address: Field required"),
        (
            '[[replica]]\naddress = "a:1"\nadress = "b:1"',
            "adress: there is no such key; there are address",
        ),
        ('[[replica]]\naddress = "a:1"\n[[replica]]\naddress = "a:1"', "'a:1' is there twice"),
        (
            '[[replica]]\naddress = "a:1"\nid = "x"\n[[replica]]\naddress = "a:1"',
            "'a:1' and 'x' have one address, a:1;",
        ),
        ('[[replica]]\naddress = "a:1"\ncapacity = 100001', "capacity: Input should be less"),
        ('[[replica]]\naddress = "a:1"\n[[replica]]\naddress = "a"', "replica 2: address 'a' must"),
        ('[[replica]]\naddress = "a:1"\ncapacity = 0', "capacity: Input should be greater"),
        ('[[replica]]\naddress = "a:1"\nmetadata = { Bad = "x" }', "metadata: Value error, pair 1"),
        (
            '[[replica]]\naddress = "a:1"\nmetadata = { a = "x\\n" }',
            "metadata: Value error, pair 1",
        ),
        ('[[replica]]\naddress = "a:1"\ntls = "no"', "tls: Input should be 'off', 'system'"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_entry(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "tritons.toml"
    file.write_text(text, "utf-8")

    with pytest.raises(DiscoveryError) as caught:
        asyncio.run(FileReader(file, DEFAULTS).read())

    assert words in str(caught.value)
    assert str(file) in str(caught.value)


def test_what_is_secret_in_a_wrong_entry_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "tritons.toml"
    file.write_text('[[replica]]\naddress = "a:1"\nmetadata = "correct-horse"', "utf-8")

    with pytest.raises(DiscoveryError) as caught:
        asyncio.run(FileReader(file, DEFAULTS).read())

    assert "correct-horse" not in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "given", "is_taken"),
    [
        ("off", "private", True),
        ("private", None, True),
        ("private", "private", True),
        ("private", "off", False),
        ("private", "system", False),
        ("system", "off", False),
    ],
)
def test_an_entry_cannot_lower_what_the_settings_ask_for(
    asked: Any, given: str | None, *, is_taken: bool
) -> None:
    entry = {"address": "a:1"} | ({"tls": given} if given else {})

    if is_taken:
        assert Defaults(tls=asked).read(entry).tls == (given or asked)
    else:
        with pytest.raises(DiscoveryError, match="SPEECH_TRITON_TLS asks for"):
            Defaults(tls=asked).read(entry)


def answering(*steps: list[str] | socket.gaierror) -> Any:
    """Return a resolver that gives one answer after the other, then the last again."""
    left = list(steps)

    async def resolve(_: str) -> list[str]:
        step = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(step, socket.gaierror):
            raise step
        return step

    return resolve


def test_every_address_of_a_name_is_a_triton_whose_certificate_has_the_name() -> None:
    reader = DnsReader("tritons.svc", 8001, DEFAULTS, answering(["10.0.0.1", "fd00::1"]))

    four, six = asyncio.run(reader.read())

    assert [four.target, six.target] == ["10.0.0.1:8001", "[fd00::1]:8001"]
    assert {one.server_name for one in (four, six)} == {"tritons.svc"}


@pytest.mark.parametrize("error", [NO_NAME, TRY_AGAIN])
def test_a_name_that_is_gone_is_not_an_empty_set_at_once(error: socket.gaierror) -> None:
    clock = Clock()
    reader = DnsReader("tritons.svc", 8001, DEFAULTS, answering(["10.0.0.1"], error), clock)

    async def run() -> Addresses:
        assert len(await reader.read()) == 1
        clock.now += GONE_SECONDS - 1
        with pytest.raises(DiscoveryError, match="cannot be resolved"):
            await reader.read()
        clock.now += 1
        return await reader.read()

    if error is NO_NAME:
        assert asyncio.run(run()) == ()
    else:
        # A resolver that does not work says nothing of the name, however long.
        with pytest.raises(DiscoveryError, match="Temporary failure"):
            asyncio.run(run())


def test_the_machines_own_resolver_is_asked() -> None:
    assert "127.0.0.1" in asyncio.run(resolve_all("localhost"))


def test_what_can_be_no_name_has_no_address() -> None:
    with pytest.raises(socket.gaierror, match="no name can be such"):
        asyncio.run(resolve_all(f"{'a' * 64}.example"))
