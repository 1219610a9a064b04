from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.spark import sound
from speech_backend.tokens import SAMPLES_PER_TOKEN, TOKENS_PER_SECOND
from speech_backend.windows import (
    FIELD_TOKENS,
    WINDOW_LENGTHS,
    Window,
    WindowPlan,
    WindowPlanner,
    bucket,
)

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_SECONDS = 0.1
LOOK_AHEADS = st.integers(1, FIELD_TOKENS)


@dataclass
class Listening:
    """Plays in real time from the first chunk on; knows how long he heard nothing."""

    windows: list[Window] = field(default_factory=list)
    sent_at: list[float] = field(default_factory=list)
    dry_seconds: float = 0.0
    plays_until: float | None = None

    def hear(self, window: Window, now: float) -> None:
        if self.plays_until is not None and now > self.plays_until:
            self.dry_seconds += now - self.plays_until
        begins = now if self.plays_until is None else max(now, self.plays_until)
        self.plays_until = begins + (window.stop - window.start) / TOKENS_PER_SECOND
        self.windows.append(window)
        self.sent_at.append(now)


def listen(
    plan: WindowPlan,
    arrivals: list[float],
    decode_seconds: Callable[[int], float] = lambda _: 0.0,
    start: float = 0.0,
) -> tuple[Listening, WindowPlanner]:
    """Run a planner on tokens 0, 1, 2, … that come at ascending `arrivals`, as a caller would."""
    planner, heard, now, pushed = WindowPlanner(plan), Listening(), start, 0
    while True:
        while pushed < len(arrivals) and start + arrivals[pushed] <= now:
            planner.push([pushed])
            pushed += 1
        if pushed == len(arrivals):
            planner.finish()
        window = planner.next_window(now)
        if window is None:
            if pushed == len(arrivals):
                return heard, planner
            now = min(start + arrivals[pushed], now + POLL_SECONDS)
            continue
        assert window.start - window.context_left >= 0
        assert window.stop + window.context_right <= pushed
        now += decode_seconds(bucket(window.length))
        heard.hear(window, now)
        planner.sent(window, now)


def decode(heard: Listening, planner: WindowPlanner) -> np.ndarray[Any, Any]:
    chunks = []
    for window in heard.windows:
        first, stop = (n * SAMPLES_PER_TOKEN for n in (window.kept.start, window.kept.stop))
        chunks.append(sound(planner.codes(window))[first:stop])
    return np.concatenate(chunks)


def steady(count: int, times_real_time: float) -> list[float]:
    return [(n + 1) / (times_real_time * TOKENS_PER_SECOND) for n in range(count)]


@st.composite
def arrivals(draw: st.DrawFn, slowest: float = 2.0) -> list[float]:
    """Up to 1 500 tokens in stretches of one pace; a stretch may come all at once."""
    gaps: list[float] = []
    for count in draw(st.lists(st.integers(1, 500), min_size=1, max_size=6)):
        gaps += [draw(st.just(0.0) | st.floats(0, slowest))] * count
    return np.cumsum(gaps[:1500]).tolist()


@st.composite
def plans(draw: st.DrawFn, look_ahead: st.SearchStrategy[int] = LOOK_AHEADS) -> WindowPlan:
    smallest, first, largest = sorted(draw(st.tuples(*[st.integers(1, 378)] * 3)))
    growth, comfort = draw(st.floats(1, 8)), draw(st.floats(0, 20))
    return WindowPlan(draw(look_ahead), first, smallest, growth, largest, comfort)


@settings(deadline=None, max_examples=150)
@given(plans(st.just(FIELD_TOKENS)), arrivals(), st.floats(0, 0.01), st.floats(0, 1e6))
def test_with_the_whole_field_joined_chunks_are_the_offline_waveform(
    plan: WindowPlan, arrivals: list[float], cost: float, start: float
) -> None:
    heard, planner = listen(plan, arrivals, lambda length: cost * length, start)

    assert np.array_equal(decode(heard, planner), sound(np.arange(len(arrivals))))


@settings(deadline=None, max_examples=150)
@given(plans(), arrivals(), st.floats(0, 0.01))
def test_with_less_look_ahead_samples_far_from_a_cut_are_exact(
    plan: WindowPlan, arrivals: list[float], cost: float
) -> None:
    heard, planner = listen(plan, arrivals, lambda length: cost * length)
    joined = decode(heard, planner).reshape(-1, SAMPLES_PER_TOKEN)
    offline = sound(np.arange(len(arrivals))).reshape(-1, SAMPLES_PER_TOKEN)

    near = FIELD_TOKENS - plan.look_ahead
    exact = np.ones(len(arrivals), bool)
    for window in heard.windows[:-1]:
        exact[max(window.start, window.stop - near) : window.stop] = False
    assert joined.shape == offline.shape
    assert np.array_equal(joined[exact], offline[exact])
    cuts = [window.stop for window in heard.windows if window.stop + plan.look_ahead < len(exact)]
    assert all((joined[cut - 1] != offline[cut - 1]).all() for cut in cuts if near > 0)


@settings(deadline=None, max_examples=150)
@given(plans(), arrivals(), st.floats(0, 0.01))
def test_windows_cover_every_token_once_in_order_and_the_last_one_says_so(
    plan: WindowPlan, arrivals: list[float], cost: float
) -> None:
    windows = listen(plan, arrivals, lambda length: cost * length)[0].windows

    assert windows[0].start == 0
    assert windows[-1].stop == len(arrivals)
    assert all(earlier.stop == later.start for earlier, later in pairwise(windows))
    assert all(window.start < window.stop for window in windows)
    assert [window.is_last for window in windows] == [False] * (len(windows) - 1) + [True]


@settings(deadline=None, max_examples=150)
@given(plans(), arrivals(), st.floats(0, 0.01))
def test_windows_are_bounded_in_number_and_length(
    plan: WindowPlan, arrivals: list[float], cost: float
) -> None:
    windows = listen(plan, arrivals, lambda length: cost * length)[0].windows

    sizes = [window.stop - window.start for window in windows]
    assert all(size >= plan.min_chunk for size in sizes[:-1])
    assert all(size <= plan.max_chunk for size in sizes[:-1])
    assert all(window.length <= WINDOW_LENGTHS[-1] for window in windows)
    assert len(windows) <= 1 + len(arrivals) // plan.min_chunk


@pytest.mark.parametrize(
    ("count", "chunks", "decoded"),
    [
        (1, [1], 48),
        (92, [92], 96),
        (93, [25, 68], 192),
        (300, [25, 75, 200], 96 + 256 + 384),
        (1500, [25, 75, 225, 250, 250, 250, 250, 175], 96 + 256 + 384 * 5 + 256),
    ],
)
def test_a_text_that_is_all_there_is_decoded_in_growing_chunks(
    count: int, chunks: list[int], decoded: int
) -> None:
    """What the contexts cost: 1.7 times the tokens of half a minute."""
    windows = listen(WindowPlan(), [0.0] * count)[0].windows

    assert [window.stop - window.start for window in windows] == chunks
    assert sum(bucket(window.length) for window in windows) == decoded


@pytest.mark.parametrize(("pace", "overhead"), [(0.9, 4.0), (1.5, 3.0), (3.0, 2.5), (6.0, 2.0)])
def test_the_faster_the_model_the_fewer_tokens_are_decoded_twice(
    pace: float, overhead: float
) -> None:
    windows = listen(WindowPlan(), steady(1500, pace))[0].windows

    assert sum(bucket(window.length) for window in windows) <= overhead * 1500


def test_a_listener_far_ahead_waits_for_the_largest_window() -> None:
    windows = listen(WindowPlan(), steady(1500, 6.0))[0].windows

    sizes = [window.stop - window.start for window in windows]
    assert sizes.count(250) >= 4


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 1 / 75), min_size=1, max_size=1500), LOOK_AHEADS)
def test_a_listener_never_runs_dry_at_one_and_a_half_times_real_time(
    gaps: list[float], look_ahead: int
) -> None:
    """Every token comes in time; decoding takes none."""
    heard, _ = listen(WindowPlan(look_ahead=look_ahead), np.cumsum(gaps).tolist())

    assert heard.dry_seconds <= 1e-9


@pytest.mark.parametrize("look_ahead", [1, 20, FIELD_TOKENS])
@pytest.mark.parametrize(
    ("pace", "cost"),
    [
        (1.5, lambda _: 0.1),
        (2.0, lambda length: 0.01 + 0.0005 * length),
        (3.0, lambda length: 0.02 + 0.0007 * length),
        (6.0, lambda length: 0.002 + 0.00001 * length),
    ],
    ids=["busy", "mid", "slow", "h200"],
)
def test_a_listener_does_not_run_dry_while_decoding_takes_its_time(
    pace: float, cost: Callable[[int], float], look_ahead: int
) -> None:
    heard, _ = listen(WindowPlan(look_ahead=look_ahead), steady(1500, pace), cost)

    assert heard.dry_seconds == 0


def test_the_first_sound_waits_for_the_first_chunk_and_its_look_ahead_only() -> None:
    exact, early = (
        listen(WindowPlan(look_ahead=look_ahead), steady(500, 6.0))[0].sent_at[0]
        for look_ahead in (FIELD_TOKENS, 10)
    )

    assert exact == pytest.approx((25 + 67) / 300)
    assert early == pytest.approx((25 + 10) / 300)


def test_when_the_model_stalls_what_there_is_goes_out_before_the_listener_runs_dry() -> None:
    stall = [0.0] * (25 + 67) + [0.1] * 30 + [60.0] * 10
    heard, _ = listen(WindowPlan(), stall)

    assert [(window.start, window.stop) for window in heard.windows] == [
        (0, 25),
        (25, 55),
        (55, 132),
    ]
    assert 0.1 < heard.sent_at[1] <= 0.3 + POLL_SECONDS


def test_a_slow_decode_is_begun_earlier() -> None:
    """The time a window takes is learnt from the last one."""
    stall = [0.0] * (25 + 67) + [0.05] * 30 + [60.0] * 10
    begun = []
    for cost in (0.0, 0.002):
        heard, _ = listen(WindowPlan(), stall, lambda length, cost=cost: cost * length)
        begun.append(heard.sent_at[1] - cost * 160 - heard.sent_at[0])

    assert begun[1] < begun[0] - 0.1


def test_after_running_dry_the_listener_is_not_thought_to_have_played_the_silence() -> None:
    planner = WindowPlanner(WindowPlan())
    planner.push(range(25 + 67))
    first = planner.next_window(0.0)
    assert first is not None
    planner.sent(first, 0.0)
    planner.push(range(50))
    second = planner.next_window(100.0)
    assert second is not None
    planner.sent(second, 100.0)
    planner.push(range(45))

    assert planner.next_window(100.5) is None
    assert planner.next_window(100.9) is not None


def test_a_listener_far_ahead_still_hears_from_a_model_that_slows_down() -> None:
    """The gateway gives up after 10 s without a chunk."""
    arrivals = [*steady(800, 30.0), *(0.6 + 0.05 * (n + 1) for n in range(400))]
    heard, _ = listen(WindowPlan(), arrivals)

    gaps = np.diff(heard.sent_at)
    assert heard.dry_seconds == 0
    assert 4.0 < gaps.max() < 6.0
