"""Figures of one request, from pieces with known moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from fakes.triton import tone
from gateway.audio.compressed import CompressedEncoder
from gateway.audio.pcm import to_s16le
from gateway.bench.measure import Ear, Measured, measure
from gateway.bench.playback import play
from gateway.bench.requests import Request, Take, Utterance
from gateway.speech.playback import START_BUFFER_SECONDS, Player

if TYPE_CHECKING:
    from pathlib import Path

RATE_HZ = 24_000


def sound(seconds: float) -> bytes:
    return to_s16le(tone(round(seconds * RATE_HZ)))


def silence(seconds: float) -> bytes:
    return bytes(2 * round(seconds * RATE_HZ))


def measured(*pieces: tuple[float, bytes], ear: Ear | None = None, **changes: object) -> Measured:
    """Measure a request that was scheduled at 100, in a level that began at 90."""
    take = Take(
        Request(7, Utterance("a", "One.")),
        scheduled_seconds=100.0,
        sent_seconds=100.0,
        ended_seconds=pieces[-1][0] if pieces else 101.0,
        pieces=list(pieces),
    )
    for name, value in changes.items():
        setattr(take, name, value)
    return measure(take, "c1", 90.0, ear or Ear(buffer_seconds=0.1))


def test_the_usual_figures() -> None:
    one = measured((100.2, sound(0.5)), (100.4, sound(0.5)), (100.5, sound(1.0)))

    assert one.outcome == "ok"
    assert one.scheduled_seconds == 10.0
    assert one.first_byte_seconds == pytest.approx(0.2)
    assert one.first_audible_seconds == pytest.approx(0.2)
    assert one.total_seconds == pytest.approx(0.5)
    assert one.audio_seconds == 2.0
    assert one.rtf == pytest.approx(0.25)
    assert one.max_gap_seconds == pytest.approx(0.2)
    assert one.gaps_seconds == pytest.approx((0.2, 0.1))
    assert one.underruns == 0


def test_the_first_audible_sample_is_not_the_first_sample() -> None:
    one = measured((100.2, silence(0.3)), (100.7, silence(0.05) + sound(0.5)))

    assert one.first_byte_seconds == pytest.approx(0.2)
    assert one.first_audible_seconds == pytest.approx(0.7)
    assert one.lead_silence_seconds == pytest.approx(0.35, abs=0.001)
    # The player began at 100.3, ran dry at 100.6, went on at 100.7, and had 50 ms of silence left.
    assert one.first_heard_seconds == pytest.approx(0.75, abs=0.001)
    assert one.stalled_seconds == pytest.approx(0.1)


def test_what_is_audible_is_a_threshold() -> None:
    quiet = to_s16le(np.full(2400, 10 ** (-40 / 20), np.float32))

    assert measured((100.1, quiet)).outcome == "ok"
    assert measured((100.1, quiet), ear=Ear(audible_dbfs=-39)).outcome == "silent"


def test_a_late_sender_is_late_for_the_listener_but_not_in_the_rtf() -> None:
    one = measured((100.6, sound(1.0)), sent_seconds=100.5, ended_seconds=100.7)

    assert one.send_lag_seconds == pytest.approx(0.5)
    assert one.first_byte_seconds == pytest.approx(0.6)
    assert one.total_seconds == pytest.approx(0.7)
    assert one.rtf == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        ([], "no audio"),
        ([(100.1, silence(1.0))], "silent"),
        ([(100.1, b"\0")], "undecodable"),
        ([(100.1, sound(0.1) + b"\0")], "undecodable"),
    ],
)
def test_an_answer_without_speech_is_a_failure(
    pieces: list[tuple[float, bytes]], outcome: str
) -> None:
    one = measured(*pieces)

    assert one.outcome == outcome
    assert not one.is_counted


def test_a_failure_keeps_its_name_and_what_came_before() -> None:
    one = measured((100.1, sound(0.5) + b"\0"), outcome="cut", detail="gone")

    assert (one.outcome, one.detail, one.audio_seconds) == ("cut", "gone", 0.5)


def test_whoever_meant_to_hang_up_is_not_counted_even_if_it_was_over_before() -> None:
    request = Request(7, Utterance("a", "One."), "hangs up", hang_up_seconds=9)

    one = measured((100.1, sound(0.5)), request=request)

    assert one.is_ok
    assert not one.is_counted


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac"])
def test_compressed_audio_is_decoded_where_it_arrived(name: str) -> None:
    """A second of silence, then a tone: the tone's moment is found, not the first byte's."""
    encoder = CompressedEncoder(name, RATE_HZ)
    samples = np.concatenate([np.zeros(RATE_HZ, np.float32), tone(RATE_HZ)])
    pieces = [
        (100 + (at + 2400) / RATE_HZ, encoder.encode(samples[at : at + 2400]))
        for at in range(0, len(samples), 2400)
    ]
    pieces.append((102.0, encoder.flush()))

    one = measured(*pieces, ear=Ear(name))

    assert one.audio_seconds == pytest.approx(2.0, abs=0.1)
    assert one.first_audible_seconds == pytest.approx(1.1, abs=0.2)
    assert one.lead_silence_seconds == pytest.approx(1.0, abs=0.1)


def test_the_audio_is_kept_if_asked_for(tmp_path: Path) -> None:
    measured((100.1, sound(0.5)), ear=Ear(audio_dir=str(tmp_path)))

    [file] = tmp_path.iterdir()
    assert file.name == "c1-00007.wav"
    assert file.stat().st_size == 44 + len(sound(0.5))


def test_a_player_stalls_when_it_has_played_all_that_came() -> None:
    arrivals = [(1.0, 0.2), (1.1, 0.4), (2.0, 0.5), (2.05, 3.0)]

    playback = play(arrivals, buffer_seconds=0.1)

    assert playback.started_seconds == 1.1
    assert [stall.position_seconds for stall in playback.stalls] == [0.4]
    assert playback.stalled_seconds == pytest.approx(0.5)
    assert playback.heard_seconds(0.1) == pytest.approx(1.2)
    assert playback.heard_seconds(0.45) == pytest.approx(2.05)


def test_two_stalls_are_two() -> None:
    playback = play([(0.0, 0.1), (0.2, 0.2), (0.5, 1.0)], buffer_seconds=0.0)

    assert [stall.seconds for stall in playback.stalls] == pytest.approx([0.1, 0.2])
    assert [stall.position_seconds for stall in playback.stalls] == [0.1, 0.2]


def test_a_player_that_begins_later_stalls_less() -> None:
    arrivals = [(index * 0.1, index * 0.1 + 0.05) for index in range(10)] + [(1.5, 2.0)]

    at_once, later = play(arrivals, 0.0), play(arrivals, 0.5)

    assert (at_once.started_seconds, later.started_seconds) == (0.0, 0.5)
    assert at_once.stalled_seconds == pytest.approx(0.55)
    assert later.stalled_seconds == pytest.approx(0.05)


def test_speech_that_is_complete_never_stalls() -> None:
    assert play([(1.0, 0.1), (1.05, 5.0)], buffer_seconds=0.1).stalls == ()


def test_audio_just_in_time_is_no_stall() -> None:
    assert play([(i * 0.1, i * 0.1 + 0.1) for i in range(100)], 0.0).stalls == ()


def test_the_players_figures_are_those_of_the_services_own_model() -> None:
    dice = np.random.default_rng(3)
    moments = np.cumsum(dice.exponential(0.12, 200)).tolist()
    there = np.cumsum(dice.uniform(0.05, 0.2, 200)).tolist()
    arrivals = list(zip(moments, there, strict=True))
    player = Player()
    for at, seconds in arrivals:
        player.offered(at, seconds)
        player.taken(at)

    playback = play(arrivals, START_BUFFER_SECONDS)

    assert len(playback.stalls) == player.underruns > 3
    assert playback.stalled_seconds == pytest.approx(player.underrun_seconds)
