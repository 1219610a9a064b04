"""The manifests, as far as they can be read without a cluster: schemas, names, times, options."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from engine.__main__ import main
from engine.autoscale import FULL_SHARE
from engine.server import EXIT_GRACE_SECONDS
from engine.spec import EngineSpec
from engine.workplace import Workplace
from gateway.backend.upstream import UpstreamCounts
from gateway.settings import Settings
from gateway.speech.voice_file import load_voices
from gateway.telemetry.collectors import UpstreamCollector

FOLDER = Path(__file__).parents[2] / "engine" / "kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))
VERSIONS = ("1.30", "1.37")
CLUSTER_DNS_SECONDS = 5
"""How old an answer of CoreDNS may be, unless the cluster sets another `ttl`."""
FILES = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")


def documents(*names: str) -> list[dict[str, Any]]:
    texts = [(FOLDER / name).read_text("utf-8") for name in names]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def find(kind: str, name: str) -> dict[str, Any]:
    [found] = [
        each
        for each in documents(*FILES)
        if each["kind"] == kind and each["metadata"].get("name") == name
    ]
    return found


def pod_of(name: str) -> dict[str, Any]:
    return find("Deployment", name)["spec"]["template"]  # type: ignore[no-any-return]


def container(name: str) -> dict[str, Any]:
    return pod_of(name)["spec"]["containers"][0]  # type: ignore[no-any-return]


def gateway_variables() -> dict[str, str]:
    return {each["name"]: each["value"] for each in container("gateway")["env"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FILES)
def test_each_document_is_what_its_kind_may_be(name: str, version: str) -> None:
    """By Kubernetes' own schemas, with no field that they do not know."""
    found = documents(name)

    assert found
    for document in found:
        assert kubernetes_validate.validate(document, version, strict=True) == version


def test_the_schemas_refuse_what_is_misspelt() -> None:
    document = copy.deepcopy(find("Deployment", "gateway"))
    document["spec"]["template"]["spec"]["terminationGracePeriod"] = 5

    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


def test_all_files_are_applied_but_the_job_and_the_example() -> None:
    resources = KUSTOMIZATION["resources"]

    assert sorted([*resources, "build.yaml", "secret.example.yaml"]) == FILES
    images = {container(name)["image"] for name in ("gateway", "triton")}
    assert images == {image["name"] for image in KUSTOMIZATION["images"]}
    [built] = documents("build.yaml")
    image = built["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image in {f"{each['name']}:{each['newTag']}" for each in KUSTOMIZATION["images"]}


def test_the_gateway_finds_each_triton_by_itself() -> None:
    service = find("Service", "triton")["spec"]
    settings = Settings(
        _env_file=None,
        **{name.removeprefix("SPEECH_").lower(): v for name, v in gateway_variables().items()},  # type: ignore[arg-type]
    )

    assert service["clusterIP"] == "None"
    assert settings.triton_address == f"dns://triton:{service['ports'][0]['port']}"
    assert service["selector"].items() <= pod_of("triton")["metadata"]["labels"].items()
    gateway = find("Service", "gateway")["spec"]
    assert gateway["selector"].items() <= pod_of("gateway")["metadata"]["labels"].items()
    assert container("gateway")["ports"][0]["name"] == gateway["ports"][0]["targetPort"]


def test_the_gateway_has_the_voices_of_the_file() -> None:
    [made] = KUSTOMIZATION["configMapGenerator"]
    [volume] = [each for each in pod_of("gateway")["spec"]["volumes"] if "configMap" in each]
    mounts = {each["name"]: each["mountPath"] for each in container("gateway")["volumeMounts"]}
    [name] = made["files"]
    variables = gateway_variables()

    assert volume["configMap"]["name"] == made["name"]
    assert variables["SPEECH_VOICES_FILE"] == f"{mounts[volume['name']]}/{name}"
    voices = load_voices(FOLDER / name, (variables["SPEECH_MODELS"],))
    assert [voice.id for voice in voices["spark_tts"]] == ["bob"]


def test_the_secrets_that_are_asked_for_are_those_of_the_example() -> None:
    example = {each["metadata"]["name"]: each for each in documents("secret.example.yaml")}
    variables = example["speech-gateway"]["stringData"]
    values = {name.removeprefix("SPEECH_").lower(): value for name, value in variables.items()}
    settings = Settings(_env_file=None, **values)
    secret = example["speech-triton"]["stringData"]["secret"]

    volumes = {each["name"]: each for each in pod_of("triton")["spec"]["volumes"]}
    assert volumes["secret"]["secret"]["secretName"] == "speech-triton"
    assert "--secret-file=/secrets/secret" in container("triton")["args"]
    assert container("gateway")["envFrom"][0]["secretRef"]["name"] == "speech-gateway"
    assert settings.metadata_pairs == (("triton-grpc-protocol-speech", secret),)


def test_triton_is_told_what_it_understands_and_what_the_job_has_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = container("triton")["args"]
    with pytest.raises(SystemExit):
        main(["serve", *arguments, "--nothing"])
    place = Workplace(Path("/work"), EngineSpec())
    [job] = documents("build.yaml")
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]

    assert capsys.readouterr().err.endswith("unrecognized arguments: --nothing\n")
    assert f"--model-dir={place.weights}" in arguments
    assert f"--engine-dir={place.engine}" in arguments
    assert command[4:] == ["all", "--work", "/work"]


def option(name: str) -> float:
    [value] = [a.partition("=")[2] for a in container("triton")["args"] if a.startswith(name)]
    return float(value)


def pre_stop_seconds(name: str) -> float:
    command = container(name)["lifecycle"]["preStop"]["exec"]["command"]
    assert command[0] == "sleep"
    return float(command[1])


def test_what_is_spoken_may_end_before_a_pod_is_killed() -> None:
    ends_after = pre_stop_seconds("triton") + option("--exit-timeout") + EXIT_GRACE_SECONDS
    assert pod_of("triton")["spec"]["terminationGracePeriodSeconds"] > ends_after

    grace = float(gateway_variables()["SPEECH_SHUTDOWN_GRACE_SECONDS"])
    ends_after = pre_stop_seconds("gateway") + grace
    assert pod_of("gateway")["spec"]["terminationGracePeriodSeconds"] > ends_after


def test_a_triton_is_withdrawn_before_it_is_told_to_stop() -> None:
    until_asked = Settings(_env_file=None).discovery_interval_seconds
    assert pre_stop_seconds("triton") > until_asked + CLUSTER_DNS_SECONDS


def test_an_engine_that_loads_is_not_killed_for_it() -> None:
    """Nor one that the engine restarts in place, after a crash: then it is alive, and not ready."""
    for name in ("startupProbe", "livenessProbe"):
        probe = container("triton")[name]
        assert probe["periodSeconds"] * probe["failureThreshold"] > option("--start-timeout")


def test_another_triton_comes_before_the_last_is_full() -> None:
    scaler = find("HorizontalPodAutoscaler", "triton")["spec"]
    target = float(scaler["metrics"][0]["external"]["target"]["averageValue"])
    streams = int(gateway_variables()["SPEECH_REPLICA_MAX_STREAMS"])

    assert target == round(streams * FULL_SHARE)
    assert streams == EngineSpec().max_batch
    assert scaler["scaleTargetRef"]["name"] == "triton"
    assert "replicas" not in find("Deployment", "triton")["spec"]


def test_what_scaling_asks_for_is_there() -> None:
    """The rule for prometheus-adapter is in the README, since the adapter is the cluster's."""
    scaler = find("HorizontalPodAutoscaler", "triton")["spec"]
    asked = scaler["metrics"][0]["external"]["metric"]["name"]
    readme = (FOLDER.parent / "README.md").read_text("utf-8")
    [rules] = (
        text for text in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL) if "rules" in text
    )
    [rule] = yaml.safe_load(rules)["rules"]["external"]

    shown = {family.name for family in UpstreamCollector(UpstreamCounts(), str).collect()}
    assert asked in shown
    assert (rule["seriesQuery"], rule["metricsQuery"]) == (asked, f"sum({asked})")


def test_prometheus_may_read_what_it_is_told_to() -> None:
    """The ports of the annotations, through the network's policy and without a key."""
    for name in ("gateway", "triton"):
        annotations = pod_of(name)["metadata"]["annotations"]
        ports = {p["containerPort"]: p["name"] for p in container(name)["ports"]}
        port = ports[int(annotations["prometheus.io/port"])]
        rules = find("NetworkPolicy", name)["spec"]["ingress"]
        [peers] = [rule.get("from") for rule in rules if {"port": port} in rule["ports"]]
        labels = {"kubernetes.io/metadata.name": "monitoring"}
        assert peers in (None, [{"namespaceSelector": {"matchLabels": labels}}])

    assert "metrics" in Settings(_env_file=None).open_without_key


def test_all_that_the_tritons_take_is_let_in() -> None:
    variables, gateways = gateway_variables(), find("Deployment", "gateway")["spec"]["replicas"]
    most = find("HorizontalPodAutoscaler", "triton")["spec"]["maxReplicas"]

    let_in = int(variables["SPEECH_MAX_CONCURRENT_REQUESTS"]) * gateways
    assert let_in == int(variables["SPEECH_REPLICA_MAX_STREAMS"]) * most


def test_pods_are_nobody_in_particular() -> None:
    """As the images are built, and as the namespace wants it."""
    [job] = documents("build.yaml")
    pods = [pod_of("gateway")["spec"], pod_of("triton")["spec"], job["spec"]["template"]["spec"]]

    for pod in pods:
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["automountServiceAccountToken"] is False
        for each in pod["containers"]:
            assert each["securityContext"]["allowPrivilegeEscalation"] is False
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_only_the_gateway_reaches_triton_s_grpc() -> None:
    rules = find("NetworkPolicy", "triton")["spec"]["ingress"]
    grpc = [rule["from"] for rule in rules if {"port": "grpc"} in rule["ports"]]

    labels = pod_of("gateway")["metadata"]["labels"]
    assert grpc == [[{"podSelector": {"matchLabels": labels}}]]
    assert find("NetworkPolicy", "deny")["spec"]["podSelector"] == {}
