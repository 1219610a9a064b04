"""The modelled player: what it plays, when it waits, and when that is not the service's fault."""

from __future__ import annotations

import pytest

from gateway.speech.playback import START_BUFFER_SECONDS, Player


def played(*sent: tuple[float, float]) -> Player:
    """Return a player that got so many seconds in all at each of these moments, and took them."""
    player = Player()
    for now, audio_seconds in sent:
        player.offered(now, audio_seconds)
        player.taken(now)
    return player


def test_the_start_buffer_is_200_milliseconds() -> None:
    assert START_BUFFER_SECONDS == 0.2


@pytest.mark.parametrize(
    ("sent", "underruns", "seconds"),
    [
        pytest.param([], 0, 0.0, id="nothing"),
        pytest.param([(5.0, 1.0)], 0, 0.0, id="one chunk"),
        pytest.param([(5.0, 1.0), (6.2, 2.0)], 0, 0.0, id="at the last moment"),
        pytest.param([(5.0, 1.0), (6.5, 2.0)], 1, 0.3, id="late by 0.3"),
        pytest.param([(5.0, 1.0), (6.5, 2.0), (7.4, 3.0)], 1, 0.3, id="played on after the wait"),
        pytest.param([(5.0, 1.0), (6.5, 2.0), (8.0, 3.0)], 2, 0.8, id="late twice"),
        pytest.param([(5.0, 9.0), (6.0, 10.0), (15.0, 11.0)], 0, 0.0, id="far ahead"),
        pytest.param([(5.0, 0.0), (8.0, 1.0), (9.2, 2.0)], 0, 0.0, id="a head without sound"),
        pytest.param([(5.0, 1.0), (9.0, 1.0)], 0, 0.0, id="a codec's last bytes"),
    ],
)
def test_it_waits_when_it_is_dry(
    sent: list[tuple[float, float]], underruns: int, seconds: float
) -> None:
    player = played(*sent)

    assert player.underruns == underruns
    assert player.underrun_seconds == pytest.approx(seconds)


def test_it_is_not_the_services_fault_that_the_listener_takes_nothing() -> None:
    player = Player()

    player.offered(5.0, 1.0)
    player.taken(60.0)
    player.offered(61.1, 2.0)
    player.taken(90.0)
    player.offered(90.9, 3.0)

    assert player.underruns == 0
    player.taken(90.9)
    player.offered(92.5, 4.0)
    assert player.underrun_seconds == pytest.approx(0.5)


def test_it_plays_on_while_the_listener_takes_what_is_there() -> None:
    """One who reads no faster than he plays has little in hand when the model falls silent."""
    player = Player()

    for packet in range(600):
        player.offered(packet / 10, (packet + 1) / 10)
        player.taken((packet + 1) / 10)
    player.offered(80.0, 60.1)

    assert player.underruns == 1
    assert player.underrun_seconds == pytest.approx(19.7)


@pytest.mark.parametrize(("until", "seconds"), [(6.0, 0.0), (9.2, 3.0)])
def test_a_stream_that_breaks_off_was_silent_since_it_was_dry(until: float, seconds: float) -> None:
    player = played((5.0, 1.0))

    player.broke_off(until)

    assert player.underruns == (seconds > 0)
    assert player.underrun_seconds == pytest.approx(seconds)


def test_a_listener_who_takes_nothing_and_leaves_has_not_waited() -> None:
    player = Player()

    player.offered(5.0, 1.0)
    player.broke_off(600.0)

    assert player.underruns == 0


def test_without_audio_there_is_nothing_to_wait_for() -> None:
    player = Player()

    player.broke_off(600.0)

    assert player.underruns == 0
