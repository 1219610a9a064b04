"""The downloader, with the real library against a small Hub that breaks off."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fakes.hub import COMMIT, FakeHub
from fakes.hub_client import ENGINE, download, environment

MODEL = "LLM/model.safetensors"
# The library's chunks have 10 MiB, and it goes on from whole ones.
FILES = {
    "LLM/config.json": b'{"vocab_size": 166000}',
    MODEL: bytes(range(256)) * 60_000,
    "BiCodec/config.yaml": b"a: 1\n",
    "wav2vec2-large-xlsr-53/config.json": b"{}",
    "config.yaml": b"b: 2\n",
    "src/logo.png": b"a picture",
}
WANTED = sorted(path for path in FILES if path != "src/logo.png")


def wait_noted(part: Path, paths: set[str]) -> None:
    """Return once the library has put these files in their place, and noted that."""
    notes = [part / ".cache" / "huggingface" / "download" / f"{path}.metadata" for path in paths]
    give_up_at = time.monotonic() + 60
    while not all(note.is_file() and note.stat().st_size for note in notes):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def files(folder: Path) -> list[str]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(folder)) for path in paths if path.name != "manifest.json")


def test_spark_tts_comes_without_its_pictures_and_is_pinned_in_words(tmp_path: Path) -> None:
    with FakeHub(FILES) as hub:
        done = download(hub, tmp_path)

    folder = tmp_path / "weights" / "SparkAudio--Spark-TTS-0.5B@main"
    assert (done.returncode, done.stdout) == (0, f"{folder}\n")
    assert files(folder) == WANTED
    assert (folder / MODEL).read_bytes() == FILES[MODEL]
    assert json.loads((folder / "manifest.json").read_text())["commit"] == COMMIT
    assert f"--revision {COMMIT}" in done.stderr


def test_a_dry_run_says_what_it_would_fetch_and_whether_that_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "weights" / "SparkAudio--Spark-TTS-0.5B@main"
    with FakeHub(FILES) as hub:
        before = download(hub, tmp_path, "--dry-run")
        asked = list(hub.asked)
        other = download(hub, tmp_path, "--dry-run", "me/mine@v1", "--ignore", "*.bin")
        download(hub, tmp_path)
        after = download(hub, tmp_path, "--dry-run")
    (folder / MODEL).write_bytes(b"truncated")
    broken = download("http://127.0.0.1:9", tmp_path, "--dry-run")

    files = "LLM/*, BiCodec/*, wav2vec2-large-xlsr-53/*, config.yaml"
    what = f"SparkAudio/Spark-TTS-0.5B at main, {files}, from the Hugging Face Hub\n  into {folder}"
    assert (before.returncode, before.stdout, asked) == (0, f"{what}\n", [])
    assert other.stdout.startswith("me/mine at v1, all files without *.bin, from the Hugging")
    assert after.stdout == f"{what} (there already, nothing would be fetched)\n"
    assert broken.returncode == 1
    assert f"{MODEL} has 9 bytes, not {len(FILES[MODEL])}; remove it" in broken.stderr


def test_what_is_complete_needs_no_network(tmp_path: Path) -> None:
    with FakeHub(FILES) as hub:
        download(hub, tmp_path)
        endpoint = hub.endpoint

    done = download(endpoint, tmp_path)

    assert done.returncode == 0


def test_a_transfer_that_breaks_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with FakeHub(FILES, script={MODEL: [12_000_000]}) as hub:
        done = download(hub, tmp_path)

        assert hub.transfers(MODEL) == [0, 10 * 2**20]
    assert done.returncode == 0
    folder = tmp_path / "weights" / "SparkAudio--Spark-TTS-0.5B@main"
    assert (folder / MODEL).read_bytes() == FILES[MODEL]


def test_killed_in_a_file_the_next_run_keeps_the_complete_ones(tmp_path: Path) -> None:
    with FakeHub(FILES, script={MODEL: [11_000_000]}, hangs_in=MODEL) as hub:
        command = [*ENGINE, "download", "--work", str(tmp_path)]
        with subprocess.Popen(
            command, env=environment(hub, HF_HUB_DOWNLOAD_TIMEOUT="60"), stderr=subprocess.DEVNULL
        ) as process:
            assert hub.hanging.wait(60)
            part = tmp_path / "weights" / ".SparkAudio--Spark-TTS-0.5B@main.part"
            wait_noted(part, set(WANTED) - {MODEL})
            process.send_signal(signal.SIGKILL)
        hub.hangs_in = None
        hub.released.set()
        assert not (tmp_path / "weights" / "SparkAudio--Spark-TTS-0.5B@main").exists()
        kept = {path for path in WANTED if (part / path).exists()}
        before = list(hub.asked)

        done = download(hub, tmp_path)

        again = {path for method, path, _ in hub.asked[len(before) :] if method == "GET"}
    assert done.returncode == 0
    assert kept == set(WANTED) - {MODEL}
    assert again == {MODEL}
    folder = tmp_path / "weights" / "SparkAudio--Spark-TTS-0.5B@main"
    assert files(folder) == WANTED
    assert (folder / MODEL).read_bytes() == FILES[MODEL]


def test_each_repository_has_a_folder_of_its_own(tmp_path: Path) -> None:
    with FakeHub(FILES, repository="someone/voice") as hub:
        done = download(hub, tmp_path, "someone/voice", f"someone/voice@{COMMIT}", "--allow=*.yaml")

    folders = [Path(line) for line in done.stdout.splitlines()]
    assert [folder.name.split("--")[1] for folder in folders] == ["voice@main", f"voice@{COMMIT}"]
    for folder in folders:
        assert files(folder) == ["BiCodec/config.yaml", "config.yaml"]


@pytest.mark.parametrize("patterns", [[], ["--allow", "*.yaml"]])
def test_what_the_steps_look_for_is_what_they_need(tmp_path: Path, patterns: list[str]) -> None:
    """Another choice of files under the same name would be refused by `all` for ever."""
    with FakeHub(FILES) as hub:
        named = download(hub, tmp_path, "SparkAudio/Spark-TTS-0.5B", *patterns)
        done = download(hub, tmp_path)

    assert (named.returncode, done.returncode) == (0, 0), done.stderr
    assert files(Path(done.stdout.strip())) == WANTED
    assert (named.stdout == done.stdout) is (patterns == [])


def test_all_of_another_repository_has_a_name_of_its_own(tmp_path: Path) -> None:
    with FakeHub(FILES, repository="someone/voice") as hub:
        done = download(hub, tmp_path, "someone/voice")

    assert done.stdout == f"{tmp_path}/weights/someone--voice@main--all\n"
    assert files(Path(done.stdout.strip())) == sorted(FILES)


def test_patterns_leave_out_what_is_named(tmp_path: Path) -> None:
    with FakeHub(FILES, repository="someone/voice") as hub:
        download(hub, tmp_path, "someone/voice", "--ignore=LLM/*", "--ignore=src/*")

    (folder,) = (tmp_path / "weights").glob("someone--voice@main--*")
    found = files(folder)
    assert found == [path for path in WANTED if not path.startswith("LLM/")]


def test_a_private_repository_opens_with_the_token_of_the_environment(tmp_path: Path) -> None:
    with FakeHub(FILES, token="hf_secret") as hub:  # noqa: S106  the fake's
        refused = download(hub, tmp_path)
        done = download(hub, tmp_path, HF_TOKEN="hf_secret")  # noqa: S106

    assert refused.returncode == 1
    assert "is not there, or not for you" in refused.stderr
    assert "HF_TOKEN" in refused.stderr
    assert done.returncode == 0
    assert "hf_secret" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody/nothing"], "error: nobody/nothing (revision main) is not there, or not for you"),
        (["--revision", "v9"], "(revision v9) is not there: the repository has no such revision"),
        (["--allow", "*.gguf"], "has no file that the patterns leave (allow *.gguf, ignore none)"),
        (["some/b--c"], "error: some/b--c is no name of a repository: "),
        (["no-owner"], "'no-owner' is no repository; one is named owner/name"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    with FakeHub(FILES) as hub:
        done = download(hub, tmp_path, *arguments)

    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "weights").glob("[!.]*")) == []


def test_without_network_the_sentence_says_what_else_there_is(tmp_path: Path) -> None:
    done = download("http://127.0.0.1:9", tmp_path)

    assert done.returncode == 1
    assert "does not answer as it should: [Errno 111] Connection refused; check" in done.stderr
    assert "--model-dir" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_hub_that_answers_is_no_news(tmp_path: Path) -> None:
    with FakeHub(FILES) as hub:
        done = download(hub, tmp_path)

    assert hub.endpoint not in done.stderr


def test_a_hub_that_fails_is_no_missing_repository(tmp_path: Path) -> None:
    with FakeHub(FILES, status=418) as hub:
        done = download(hub, tmp_path)

    assert done.returncode == 1
    assert "cannot be fetched: the Hub answered 418; check the network" in done.stderr


def test_content_that_is_not_the_hubs_is_never_used(tmp_path: Path) -> None:
    with FakeHub(FILES, corrupt=MODEL) as hub:
        done = download(hub, tmp_path)

    assert done.returncode == 1
    assert f"{MODEL} did not arrive as the Hub describes it" in done.stderr
    assert list((tmp_path / "weights").glob("[!.]*")) == []

    with FakeHub(FILES) as hub:
        assert download(hub, tmp_path).returncode == 0


def test_a_full_disk_is_known_before_the_transfer(tmp_path: Path) -> None:
    with FakeHub(FILES, claims={MODEL: 10**18}) as hub:
        done = download(hub, tmp_path)

        assert hub.asked == []
    assert done.returncode == 1
    assert "error: SparkAudio/Spark-TTS-0.5B needs 1000000000.0 GB, the disk of" in done.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with FakeHub(FILES) as hub:
        done = download(hub, tmp_path / "x", "--work", "/proc/nothing")

    assert done.returncode == 1
    assert done.stderr.startswith("error: /proc/nothing/weights cannot be written (No such file")
    assert "choose another folder" in done.stderr
