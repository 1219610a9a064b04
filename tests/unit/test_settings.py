"""Settings: each from its variable, every mistake named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.keys import ApiKey, KeyFile
from gateway.pem import Pem
from gateway.settings import Settings, SettingsError, load_settings, unknown_settings

ROOT = Path(__file__).parents[2]
CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = b"-----BEGIN PRIVATE KEY-----\nMIIC\n-----END PRIVATE KEY-----\n"
GIVEN: dict[str, tuple[str, Any]] = {
    "host": ("0.0.0.0", "0.0.0.0"),  # noqa: S104
    "port": ("9000", 9000),
    "root_path": ("/apps/tts", "/apps/tts"),
    "api_keys": ("alice:correct-horse", (ApiKey.of("alice", "correct-horse"),)),
    "api_keys_file": ("keys", KeyFile(Path("keys"), (ApiKey.of("bob", "battery-staple"),))),
    "open_without_key": ("docs", ("docs",)),
    "cors_origins": (
        "https://a.example, tauri://localhost",
        ("https://a.example", "tauri://localhost"),
    ),
    "client_api_key": ("correct-horse", SecretStr("correct-horse")),
    "triton_address": ("triton:9001", "triton:9001"),
    "triton_metrics_address": ("triton:9002", "triton:9002"),
    "discovery_interval_seconds": ("1", 1.0),
    "discovery_stale_seconds": ("30", 30.0),
    "triton_tls": ("system", "system"),
    "triton_ca": ("ca.pem", Pem("ca.pem", CERTIFICATE)),
    "triton_client_cert": ("ca.pem", Pem("ca.pem", CERTIFICATE)),
    "triton_client_key": ("key.pem", Pem("key.pem", KEY)),
    "triton_server_name": ("triton.internal", "triton.internal"),
    "triton_metadata": (
        "modal-key=wk-1, modal-secret=ws-2",
        SecretStr("modal-key=wk-1, modal-secret=ws-2"),
    ),
    "triton_plaintext": ("any", "any"),
    "replica_max_streams": ("8", 8),
    "probe_interval_seconds": ("1", 1.0),
    "probe_timeout_seconds": ("2", 2.0),
    "deep_probe_interval_seconds": ("60", 60.0),
    "max_ejected_share": ("0", 0.0),
    "slow_start_seconds": ("2.5", 2.5),
    "model_dir": ("Spark-TTS-0.5B", Path("Spark-TTS-0.5B")),
    "models": ("hibari, spark ,", ("hibari", "spark")),
    "default_sample_rate_hz": ("22050", 22050),
    "keep_native_rate": ("true", True),
    "max_input_characters": ("100", 100),
    "aliases_file": ("names.toml", Path("names.toml")),
    "voices_file": ("voices.toml", Path("voices.toml")),
    "tokenizer_model": ("spark_tokenizer", "spark_tokenizer"),
    "cache_dir": ("", None),
    "text_sanitize": ("false", False),
    "text_urls": ("drop", "drop"),
    "text_normalize": ("false", False),
    "text_split": ("false", False),
    "first_segment_characters": ("20", 20),
    "segment_characters": ("250", 250),
    "segment_pause_seconds": ("0", 0.0),
    "max_body_bytes": ("2048", 2048),
    "max_concurrent_requests": ("3", 3),
    "admission_wait_seconds": ("0", 0.0),
    "max_waiting_requests": ("0", 0),
    "key_max_concurrent_requests": ("2", 2),
    "key_requests_per_minute": ("30", 30),
    "request_timeout_seconds": ("12.5", 12.5),
    "connect_timeout_seconds": ("1.5", 1.5),
    "first_audio_timeout_seconds": ("4", 4.0),
    "gap_timeout_seconds": ("0.5", 0.5),
    "shutdown_grace_seconds": ("1", 1.0),
    "log_level": ("debug", "debug"),
    "log_format": ("json", "json"),
    "otlp_endpoint": ("http://collector:4318", "http://collector:4318"),
    "statistics_interval_seconds": ("2.5", 2.5),
}
WRONG = {
    "port": "65536",
    "triton_address": "grpc://triton:8001",
    "triton_metrics_address": "http://triton:8002",
    "discovery_interval_seconds": "0",
    "discovery_stale_seconds": "0",
    "triton_tls": "on",
    "triton_plaintext": "never",
    "replica_max_streams": "0",
    "probe_interval_seconds": "0",
    "probe_timeout_seconds": "0",
    "deep_probe_interval_seconds": "-1",
    "max_ejected_share": "1",
    "slow_start_seconds": "-1",
    "models": " , ",
    "default_sample_rate_hz": "7999",
    "keep_native_rate": "maybe",
    "max_input_characters": "0",
    "tokenizer_model": "",
    "cache_dir": "~nobody-of-that-name/x",
    "text_urls": "speak",
    "segment_characters": "0",
    "segment_pause_seconds": "5.1",
    "max_body_bytes": "1",
    "max_concurrent_requests": "0",
    "admission_wait_seconds": "-1",
    "max_waiting_requests": "-1",
    "key_max_concurrent_requests": "0",
    "key_requests_per_minute": "0",
    "request_timeout_seconds": "0",
    "connect_timeout_seconds": "0.09",
    "first_audio_timeout_seconds": "soon",
    "gap_timeout_seconds": "",
    "shutdown_grace_seconds": "-0.1",
    "log_level": "loud",
    "log_format": "xml",
    "otlp_endpoint": "collector:4317",
    "statistics_interval_seconds": "-1",
}
EVERY = pytest.mark.parametrize("name", list(Settings.model_fields))


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Spark-TTS-0.5B").mkdir()
    Path("keys").write_text("bob battery-staple\n", encoding="utf-8")
    Path("ca.pem").write_bytes(CERTIFICATE)
    Path("key.pem").write_bytes(KEY)


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"SPEECH_{name.upper()}"


@EVERY
def test_every_setting_is_read_from_its_variable(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, value = GIVEN[name]
    assert getattr(load_settings(), name) != value

    monkeypatch.setenv(variable(name), text)

    assert getattr(load_settings(), name) == value


@EVERY
def test_every_setting_is_read_from_the_env_file(name: str) -> None:
    text, value = GIVEN[name]

    Path(".env").write_text(f"{variable(name)}={text}\n", encoding="utf-8")

    assert getattr(load_settings(), name) == value


def test_flags_beat_the_environment_which_beats_the_env_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path(".env").write_text("SPEECH_PORT=1\nSPEECH_HOST=file\n", encoding="utf-8")
    monkeypatch.setenv("SPEECH_PORT", "2")

    assert load_settings(port=3, host=None).port == 3
    assert load_settings(port=None).port == 2
    assert load_settings().host == "file"


def test_with_a_checkpoint_spark_tts_is_what_callers_may_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPEECH_MODEL_DIR", "Spark-TTS-0.5B")

    assert load_settings().models == ("spark_tts",)
    assert load_settings(models="hibari,spark_tts").models == ("hibari", "spark_tts")
    with pytest.raises(SettingsError, match=r"SPEECH_MODELS = 'hibari': .* spark_tts where"):
        load_settings(models="hibari")


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_an_error_that_names_variable_and_value(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(name), WRONG[name])

    with pytest.raises(SettingsError, match=variable(name)) as wrong:
        load_settings()

    assert WRONG[name].strip(" ,") in str(wrong.value)


def test_all_wrong_values_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEECH_PORT", "x")
    monkeypatch.setenv("SPEECH_LOG_LEVEL", "loud")

    with pytest.raises(SettingsError, match=r"SPEECH_PORT.*SPEECH_LOG_LEVEL"):
        load_settings()


def test_an_unknown_variable_gets_a_warning_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPEECH_PROT", "9000")

    assert unknown_settings() == ["SPEECH_PROT is no setting; did you mean SPEECH_PORT?"]
    assert load_settings().port == 8080


def test_an_unknown_name_in_the_env_file_gets_a_warning_with_all_names() -> None:
    Path(".env").write_text("SPEECH_ZZZZ=1\n", encoding="utf-8")

    [warning] = unknown_settings()
    assert warning.startswith("SPEECH_ZZZZ is no setting; there are: SPEECH_HOST,")


def test_foreign_names_in_the_env_file_are_left_alone() -> None:
    Path(".env").write_text("HF_TOKEN=x\nSPEECH_PORT=9000\n", encoding="utf-8")

    assert load_settings().port == 9000


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().port = 1


@EVERY
@pytest.mark.parametrize("page", ["README.md", ".env.example"])
def test_every_setting_is_written_down(name: str, page: str) -> None:
    assert variable(name) in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("address", ["foo", "host:", ":8001", "h:0", "h:65536", "http://h:80"])
def test_an_address_that_is_none_is_refused_by_name(address: str) -> None:
    with pytest.raises(SettingsError, match=r"SPEECH_TRITON_ADDRESS.*must be host:port"):
        load_settings(triton_address=address)


def test_the_example_file_holds_the_defaults() -> None:
    defaults = load_settings()

    Path(".env").write_text((ROOT / ".env.example").read_text(encoding="utf-8"), encoding="utf-8")

    assert load_settings() == defaults
    assert unknown_settings() == []


@pytest.mark.parametrize("path", ["tts", "/", "/tts/", "/a//b", "/..", "/a?b", "/a b", "/a\n"])
def test_a_prefix_that_is_no_path_is_refused_by_name(path: str) -> None:
    with pytest.raises(SettingsError, match=r"SPEECH_ROOT_PATH = .*must be empty or like /tts"):
        load_settings(root_path=path)


@pytest.mark.parametrize(
    "origin",
    [
        "a.example",
        "https://a.example/",
        "https://A.example",
        "https://*.example",
        "https://",
        "//a",
    ],
)
def test_an_origin_that_no_browser_sends_is_refused_by_name(origin: str) -> None:
    with pytest.raises(SettingsError, match=r"SPEECH_CORS_ORIGINS.* is no origin") as wrong:
        load_settings(cors_origins=f"http://localhost:3000,{origin}")

    assert repr(origin) in str(wrong.value)


def test_an_env_file_that_is_not_utf_8_is_a_clear_error() -> None:
    Path(".env").write_bytes(b"SPEECH_PORT=\x90\n")

    with pytest.raises(SettingsError, match=r"\.env is not UTF-8"):
        unknown_settings()


def test_voices_are_cached_where_xdg_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert load_settings().cache_dir == Path("/var/cache/me/speech-gateway")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert load_settings().cache_dir == Path("/home/me/.cache/speech-gateway")
    assert load_settings(cache_dir="~/voices").cache_dir == Path("/home/me/voices")
