"""The dashboard *Listener experience*: how soon, how smooth, how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from gateway.observability.panels import (
    Row,
    Series,
    dashboard,
    figure,
    fill,
    graph,
    heat,
    percentiles,
    quantile,
    rate,
    ratio,
    stacked,
    variable,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

MODEL = 'model=~"$model"'
ENDED = f'{MODEL},outcome=~"finished|failed|timed_out"'
FAILED = f'{MODEL},outcome=~"failed|timed_out"'
STREAMED = f'{MODEL},delivery="streamed"'
"""Who asks for the whole at once waits for all of it, and no player of his runs dry."""
STREAMS = "speech_first_audio_seconds_count"


def build() -> Dashboard:
    """Return the dashboard as Grafana's model."""
    model = variable("model", "Model", "label_values(speech_requests_total, model)")
    words = "What those hear who ask for speech. Every figure is the gateway's own."
    empty = dashboard("Listener experience", "speech-listener", words, [model])
    return fill(empty, [_glance(), _soon(), _smooth(), _ends(), _much(), _process()])


def _failed(by: str = "") -> str:
    return ratio(
        rate("speech_requests_total", FAILED, by), rate("speech_requests_total", ENDED, by)
    )


def _broken(by: str = "") -> str:
    return ratio(rate("speech_streams_broken_total", MODEL, by), rate(STREAMS, STREAMED, by))


def _glance() -> Row:
    first_audio = quantile(0.95, "speech_first_audio_seconds", STREAMED, "")
    dry = ratio(rate("speech_underruns_total", MODEL), rate(STREAMS, STREAMED))
    return Row(
        "At a glance",
        [
            figure(
                "Requests",
                units.RequestsPerSecond,
                rate("speech_requests_total", MODEL),
                "Accepted requests that ended, whatever the outcome.",
            ),
            figure(
                "First audio, slowest 5 %",
                units.Seconds,
                first_audio,
                "From the accepted request to the first encoded audio: 95th percentile.",
                bad_from=1,
            ),
            figure(
                "Failed",
                units.PercentUnit,
                _failed(),
                "Failed or timed out, of those that neither the caller gave up nor we refused.",
                bad_from=0.05,
            ),
            figure(
                "Broken in the middle",
                units.PercentUnit,
                _broken(),
                "Failures after audio had left, of the streams that began: the listener heard a "
                "part.",
                bad_from=0.01,
            ),
            figure(
                "Underruns a stream",
                units.Short,
                dry,
                "How often a modelled player ran out of audio, for each stream that began.",
                bad_from=0.05,
            ),
            figure(
                "Speech at once",
                units.Short,
                rate("speech_audio_seconds_total", MODEL),
                "Seconds of audio sent in each second: so many listeners in real time.",
            ),
        ],
    )


def _soon() -> Row:
    return Row(
        "How soon the first sound comes",
        [
            graph(
                "First audio",
                units.Seconds,
                *percentiles("speech_first_audio_seconds", STREAMED, 0.5, 0.95, 0.99),
                words="From the accepted request to the first encoded audio. The wait for a "
                "permit is part of it.",
            ),
            heat(
                "First audio, all of it",
                "speech_first_audio_seconds",
                STREAMED,
                "Two bands mean two kinds of request, which a percentile hides.",
            ),
            graph(
                "Where the time goes, slowest 5 %",
                units.Seconds,
                Series(
                    quantile(0.95, "speech_admission_wait_seconds", MODEL, ""), "has its permit"
                ),
                Series(
                    quantile(0.95, "speech_first_chunk_seconds", MODEL, ""), "model's first chunk"
                ),
                Series(
                    quantile(0.95, "speech_first_audio_seconds", STREAMED, ""),
                    "first encoded audio",
                ),
                words="All three count from acceptance, but each line is a percentile of its own: "
                "their differences are a hint, no sum.",
            ),
        ],
    )


def _smooth() -> Row:
    silence = ratio(
        rate("speech_underrun_seconds_total", MODEL, "model"),
        rate(STREAMS, STREAMED, "model"),
    )
    underruns = ratio(
        rate("speech_underruns_total", MODEL, "model"), rate(STREAMS, STREAMED, "model")
    )
    return Row(
        "How smoothly it goes on",
        [
            graph(
                "Underruns",
                units.Short,
                Series(underruns, "{{model}} a stream"),
                Series(silence, "{{model}} seconds of silence a stream"),
                words="A player with a small start buffer is modelled from when audio was sent; "
                "networks and real players are not.",
            ),
            graph(
                "Gap between two chunks",
                units.Seconds,
                *percentiles("speech_chunk_gap_seconds", MODEL, 0.5, 0.99),
                words="How long each further chunk of a segment was waited for. The time in which "
                "the listener takes nothing is not in it.",
            ),
            graph(
                "Real-time factor",
                units.Short,
                *percentiles("speech_realtime_factor", MODEL, 0.5, 0.95),
                words="From permit to end, by the seconds of audio; finished requests alone. "
                "Above 1 nobody can listen without a pause. Who takes audio only as he plays it "
                "makes it 1.",
            ),
        ],
    )


def _ends() -> Row:
    return Row(
        "How requests end",
        [
            stacked(
                "Outcomes",
                units.RequestsPerSecond,
                Series(rate("speech_requests_total", MODEL, "outcome"), "{{outcome}}"),
                words="Rejected is the caller's mistake or a full house, cancelled a caller who "
                "left.",
            ),
            stacked(
                "Errors",
                units.RequestsPerSecond,
                Series(rate("speech_errors_total", MODEL, "code"), "{{code}}"),
                words="By the code that the caller got; with all models chosen, of those too who "
                "were refused before a model was known.",
            ),
            graph(
                "Failed, and broken in the middle",
                units.PercentUnit,
                Series(_failed("model"), "{{model}} failed"),
                Series(_broken("model"), "{{model}} broken"),
                words="0 where nothing was asked for.",
                top=1,
            ),
            stacked(
                "Callers who left",
                units.RequestsPerSecond,
                Series(rate("speech_requests_cancelled_total", MODEL, "stage"), "{{stage}}"),
                words="By what they were waiting for. While streaming it is often a barge-in, "
                "before the first audio it is impatience.",
            ),
            stacked(
                "Refused with 429",
                units.RequestsPerSecond,
                Series(rate("speech_requests_refused_total", "", "reason"), "{{reason}}"),
                words="By the limit that refused; of all models.",
            ),
            stacked(
                "Suspect audio",
                units.RequestsPerSecond,
                Series(
                    rate("speech_suspect_audio_total", MODEL, "model, reason"),
                    "{{model}} {{reason}}",
                ),
                words="Finished, but silent or too short: a success that nobody understands.",
            ),
        ],
    )


def _much() -> Row:
    return Row(
        "How much",
        [
            graph(
                "In flight and waiting",
                units.Short,
                Series("sum(speech_requests_in_flight)", "in flight"),
                Series("sum(speech_requests_waiting)", "waiting for a permit"),
                words="Of all models, at the moment of each scrape: peaks in between are missed.",
            ),
            graph(
                "Speech at once",
                units.Short,
                Series(rate("speech_audio_seconds_total", MODEL, "model"), "{{model}}"),
                words="Seconds of audio in each second: so many listeners in real time.",
            ),
            graph(
                "Length of a request",
                units.Seconds,
                *percentiles("speech_stream_seconds", MODEL, 0.5, 0.95),
                words="From acceptance to the end, of requests with audio. A listener who reads "
                "slowly makes it longer.",
            ),
            graph(
                "Text",
                units.CountsPerSecond,
                Series(rate("speech_text_characters_total", MODEL, "model"), "{{model}}"),
                words="Characters of the texts that got a permit.",
            ),
        ],
    )


def _process() -> Row:
    return Row(
        "The gateway's process",
        [
            graph(
                "CPU",
                units.Short,
                Series(
                    'rate(process_cpu_seconds_total{job="speech-gateway"}[$__rate_interval])',
                    "{{instance}}",
                ),
                words="Cores. One is where a process of the gateway ends, its codecs aside.",
            ),
            graph(
                "Memory",
                units.BytesIEC,
                Series('process_resident_memory_bytes{job="speech-gateway"}', "{{instance}}"),
                words="Resident.",
            ),
            graph(
                "Open files and connections",
                units.Short,
                Series('process_open_fds{job="speech-gateway"}', "{{instance}} open"),
                Series('process_max_fds{job="speech-gateway"}', "{{instance}} at most"),
                words="Each listener holds one; at the limit nobody new can connect.",
            ),
        ],
    )
