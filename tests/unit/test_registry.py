"""Tritons that a modal.Dict names, and the one setting that chooses where to look."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from fakes.clock import Clock, in_virtual_time
from gateway.backend.addresses import Defaults, DiscoveryError
from gateway.backend.discovery.choose import choose_source
from gateway.backend.discovery.modal_dict import ModalDictReader
from gateway.settings import Settings, SettingsError

if TYPE_CHECKING:
    from gateway.backend.discovery.source import Addresses, AddressSource

DEFAULTS = Defaults(capacity=4)


def names(found: Addresses) -> list[str]:
    return [one.id for one in found]


async def first(source: AddressSource) -> list[str]:
    """Return the names of the first set that a source yields."""
    async with aclosing(source.watch()) as found:
        return names(await anext(found))


class FakeDict:
    """A modal.Dict: only what is asked of it."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.entries = entries
        self.is_broken = False
        self.items = self

    async def aio(self) -> Any:
        if self.is_broken:
            raise ConnectionError("https://api.modal.example?token=correct-horse")
        for entry in list(self.entries.items()):
            yield entry


def beat(number: int, **fields: Any) -> str:
    entry = {"address": "r1.modal.host:443", "tls": "system", "heartbeat": number, "task_id": "x"}
    return json.dumps(entry | fields)


def test_entries_of_a_registry_live_while_their_heartbeat_moves() -> None:
    clock = Clock()
    registry = FakeDict({"a": beat(1), "b": json.loads(beat(1, capacity=2))})
    reader = ModalDictReader(registry, DEFAULTS, 45.0, clock)
    seen = []

    async def run() -> None:
        for seconds in (0, 20, 20, 20, 20):
            clock.now += seconds
            seen.append(names(await reader.read()))
            registry.entries["b"] = beat(clock.now)
        registry.entries["a"] = beat(2)
        seen.append(names(await reader.read()))

    asyncio.run(run())

    assert seen == [["a", "b"], ["a", "b"], ["a", "b"], ["b"], ["b"], ["a", "b"]]


def test_the_writers_clock_does_not_matter() -> None:
    registry = FakeDict({"a": beat(-5), "b": beat(10**12)})
    reader = ModalDictReader(registry, DEFAULTS, 45.0, Clock())

    assert names(asyncio.run(reader.read())) == ["a", "b"]


def test_one_entry_that_cannot_be_read_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    registry = FakeDict({"a": "no JSON", "b": beat(1), "c": "[]", "d": beat(1, address="nowhere")})
    reader = ModalDictReader(registry, DEFAULTS, 45.0, Clock())

    async def run() -> Addresses:
        await reader.read()
        return await reader.read()

    assert names(asyncio.run(run())) == ["b"]
    ignored = [vars(record)["fields"] for record in caplog.records]
    assert [fields["entry"] for fields in ignored] == ["a", "c", "d"]
    assert "address 'nowhere' must be host:port" in ignored[2]["reason"]


def test_a_registry_that_cannot_be_asked_is_an_error_without_its_words() -> None:
    registry = FakeDict({})
    registry.is_broken = True

    with pytest.raises(DiscoveryError, match="ConnectionError") as caught:
        asyncio.run(ModalDictReader(registry, DEFAULTS, 45.0).read())

    assert "correct-horse" not in str(caught.value)


def test_a_registry_that_hangs_is_an_error_and_is_asked_again() -> None:
    class Hanging:
        async def aio(self) -> Any:
            await asyncio.Event().wait()
            yield

    registry = FakeDict({})
    registry.items = Hanging()  # type: ignore[assignment]
    reader = ModalDictReader(registry, DEFAULTS, 45.0)

    with pytest.raises(DiscoveryError, match="TimeoutError"):
        in_virtual_time(lambda _: reader.read())


def test_without_an_account_it_is_said_what_names_one() -> None:
    class AuthError(Exception):
        """Modal's, by its name."""

    class OfNobody(FakeDict):
        async def aio(self) -> Any:
            raise AuthError("Token missing")
            yield

    with pytest.raises(DiscoveryError, match="AuthError, MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"):
        asyncio.run(ModalDictReader(OfNobody({}), DEFAULTS, 45.0).read())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a:1, b:2", ["a:1", "b:2"]),
        ("[::1]:1", ["[::1]:1"]),
        ("dns://localhost:7", None),
    ],
)
def test_one_setting_chooses(given: str, expected: list[str] | None) -> None:
    source = choose_source(Settings(_env_file=None, triton_address=given))

    found = asyncio.run(first(source))

    assert found == expected or "127.0.0.1:7" in found


def test_without_the_package_modal_the_setting_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "modal", None)

    with pytest.raises(SettingsError, match=r"pip install 'speech-gateway\[modal\]'"):
        choose_source(Settings(_env_file=None, triton_address="modal://tritons"))


def test_with_it_the_dict_of_that_name_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    modal = ModuleType("modal")

    class Dict:
        @staticmethod
        def from_name(name: str, *, create_if_missing: bool) -> FakeDict:
            assert (name, create_if_missing) == ("tritons", True)
            return FakeDict({"a": beat(1)})

    modal.Dict = Dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "modal", modal)

    source = choose_source(Settings(_env_file=None, triton_address="modal://tritons"))

    assert asyncio.run(first(source)) == ["a"]


def test_the_same_address_twice_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match="SPEECH_TRITON_ADDRESS: the name 'a:1' is there twice"):
        choose_source(Settings(_env_file=None, triton_address="a:1,a:1"))
