"""The Helm chart: its values, and the manifests that Helm renders from them."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.files import CHART, ROOT, loaded
from documentation.blocks import of_page
from jsonschema import Draft7Validator, ValidationError

from nomemory.server.runtime.listen_address import parse_listen_address
from nomemory.server.runtime.settings import Settings

VALUES: dict[str, Any] = loaded(CHART / "values.yaml")
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
HELM = next(
    (path for path in (shutil.which("helm"), ROOT / ".venv/go/helm/helm") if path and Path(path).exists()), None
)
NEEDS_HELM = pytest.mark.skipif(HELM is None, reason="helm is not installed; scripts/check_deploy builds it with Go")
VALUES_FILES = sorted(path.name for path in (CHART / "ci").iterdir())
PORTS = {"grpc": 7700, "http": 8080, "metrics": 9464}
LISTEN_SETTINGS = {
    "grpc": "NOMEMORY_LISTEN",
    "http": "NOMEMORY_HTTP_LISTEN",
    "metrics": "NOMEMORY_METRICS_LISTEN",
}
ONE_SERVER = {"keys": {"existingSecret": "keys"}, "tls": {"existingSecret": "tls"}}
SEVERAL_SERVERS = {
    "replicas": 3,
    "database": {"existingSecret": "database"},
    "serverKey": {"existingSecret": "server-key"},
    "qdrant": {"url": "grpc://qdrant:6334", "existingSecret": "qdrant"},
    "persistence": {"enabled": False},
    "networkPolicy": {"egress": {"database": {"enabled": True}, "qdrant": {"enabled": True}}},
}
MODEL = {
    "settings": {"NOMEMORY_RECALL_MODEL": "chat", "OPENAI_BASE_URL": "https://model.example/v1"},
    "envFrom": [{"secretRef": {"name": "model"}}],
    "networkPolicy": {"egress": {"model": {"enabled": True}}},
}
OPTIONS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"tls": {"existingSecret": "tls"}}, {"tls": {"insecurePlaintext": True}}),
    ({}, SEVERAL_SERVERS),
    ({}, MODEL),
    ({}, {"http": {"enabled": True}}),
    (
        {"metrics": {"enabled": False}},
        {"metrics": {"serviceMonitor": {"enabled": True, "tlsConfig": {"serverName": "memory.example"}}}},
    ),
)


def merged(*values: dict[str, Any]) -> dict[str, Any]:
    """Merge values as Helm merges values files."""
    result: dict[str, Any] = {}
    for name, value in itertools.chain.from_iterable(item.items() for item in values):
        result[name] = merged(result.get(name, {}), value) if isinstance(value, dict) else value
    return result


@pytest.mark.parametrize("file", ["values.yaml", *(f"ci/{name}" for name in VALUES_FILES)])
def test_values_match_the_schema(file: str) -> None:
    Draft7Validator.check_schema(SCHEMA)
    Draft7Validator(SCHEMA).validate(merged(VALUES, loaded(CHART / file)))


def test_documented_values_match_the_schema() -> None:
    for block in of_page("docs/deployment.md", "yaml"):
        Draft7Validator(SCHEMA).validate(merged(VALUES, yaml.safe_load(block.text)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": {"secret": "x"}},
        {"settings": {"nomemory_data": "x"}},
        {"replicas": 2},
        {"replicas": 2, "database": {"existingSecret": "memory-postgres"}},
        {"replicas": 2, "database": {"existingSecret": ""}, "serverKey": {"existingSecret": "memory-server-key"}},
        {"qdrant": {"url": "qdrant:6334"}},
        {"persistence": {"size": "1Gi", "enabled": False}},
        {"image": {"repository": ""}},
        {"podDisruptionBudget": {"maxUnavailable": 2}},
        {"persistence": {"size": "much"}},
        {"networkPolicy": {"egress": {"chat": {"enabled": True}}}},
        {"networkPolicy": {"egress": {"model": {"port": 0}}}},
        {"extraVolumeMounts": [{"name": "skills"}]},
    ],
)
def test_invalid_values_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Draft7Validator(SCHEMA).validate(merged(VALUES, wrong))


def test_schema_describes_every_value() -> None:
    def compare(values: dict[str, Any], schema: dict[str, Any]) -> None:
        for name, value in values.items():
            described = schema["properties"][name]
            if isinstance(value, dict) and "properties" in described:
                compare(value, described)

    compare(VALUES, SCHEMA)


def run_helm(*values: dict[str, Any] | str, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    """Render the chart with values, or with the names of values files."""
    command = [str(HELM), "template", "memory", str(chart), "--kube-version", "1.37.0"]
    for item in values:
        command += ["--values", str(CHART / "ci" / item) if isinstance(item, str) else "-"]
    text = "".join(yaml.safe_dump(item) for item in values if isinstance(item, dict))
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def rendered(*values: dict[str, Any] | str) -> dict[str, dict[str, Any]]:
    """Return the rendered manifests by kind. The headless service has the key `HeadlessService`."""
    done = run_helm(*values)
    assert done.returncode == 0, done.stderr
    manifests: dict[str, dict[str, Any]] = {}
    for manifest in yaml.safe_load_all(done.stdout):
        headless = manifest["spec"].get("clusterIP") == "None"
        kind = f"Headless{manifest['kind']}" if headless else manifest["kind"]
        assert kind not in manifests
        manifests[kind] = manifest
    return manifests


def error_of(*values: dict[str, Any] | str) -> str:
    """Return the error with which Helm refuses values."""
    done = run_helm(*values)
    assert done.returncode != 0
    return done.stderr


def container_of(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the container of the pods."""
    [container] = manifests["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def variables_of(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the environment variables of the container. Each name occurs once."""
    variables = container_of(manifests)["env"]
    assert len({item["name"] for item in variables}) == len(variables)
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in variables}


@NEEDS_HELM
def test_documented_values_render() -> None:
    first, *additions = [yaml.safe_load(block.text) for block in of_page("docs/deployment.md", "yaml")]
    assert "ServiceMonitor" in rendered(first)
    for values in additions:
        variables_of(rendered(merged(first, values)))


@NEEDS_HELM
@pytest.mark.parametrize("values", VALUES_FILES)
def test_chart_has_minimal_privileges(values: str) -> None:
    manifests = rendered(values)
    pod = manifests["StatefulSet"]["spec"]["template"]["spec"]
    container = container_of(manifests)
    assert manifests["StatefulSet"]["spec"]["replicas"] == loaded(CHART / "ci" / values).get("replicas", 1)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["resources"]["limits"]["memory"]


def option_combinations() -> Iterator[dict[str, Any]]:
    """Yield the values of every combination of options."""
    for options in itertools.product(*OPTIONS):
        yield merged({"keys": {"existingSecret": "keys"}}, *options)


@NEEDS_HELM
@pytest.mark.parametrize("values", [*option_combinations()])
def test_manifests_are_consistent_for_every_combination_of_options(values: dict[str, Any]) -> None:
    manifests = rendered(values)
    spec = manifests["StatefulSet"]["spec"]
    pod, container, variables = spec["template"]["spec"], container_of(manifests), variables_of(manifests)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports.items() <= PORTS.items()
    for name, port in ports.items():
        assert parse_listen_address(variables[LISTEN_SETTINGS[name]]).port == port
    assert {port["targetPort"] for port in manifests["Service"]["spec"]["ports"]} == set(ports)
    allowed = {port["port"] for rule in manifests["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]}
    assert allowed == set(ports)
    claims = {template["metadata"]["name"] for template in spec.get("volumeClaimTemplates", [])}
    volumes = [*claims, *(volume["name"] for volume in pod["volumes"])]
    assert sorted(volumes) == sorted(mount["name"] for mount in container["volumeMounts"])
    selector = spec["selector"]["matchLabels"]
    assert selector.items() <= spec["template"]["metadata"]["labels"].items()
    for kind, manifest in manifests.items():
        selected = manifest["spec"].get("podSelector", manifest["spec"].get("selector"))
        assert selected.get("matchLabels", selected) == selector, kind
    assert all(f"{probe}Probe" in container for probe in ("startup", "readiness", "liveness"))
    assert spec["serviceName"] == manifests["HeadlessService"]["metadata"]["name"]


@NEEDS_HELM
def test_health_check_uses_grpc_probe_or_program_with_tls() -> None:
    for values, health_probe, liveness_probe in (
        ("mesh-values.yaml", "grpc", "grpc"),
        ("tls-values.yaml", "exec", "exec"),
        ("cluster-values.yaml", "exec", "tcpSocket"),  # a restart does not help if the database is unavailable
    ):
        container = container_of(rendered(values))
        assert all(health_probe in container[f"{probe}Probe"] for probe in ("startup", "readiness"))
        assert liveness_probe in container["livenessProbe"]


@NEEDS_HELM
def test_cluster_servers_share_database_and_key() -> None:
    manifests = rendered("cluster-values.yaml")
    spec = manifests["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    variables = variables_of(manifests)
    for name, secret in (("NOMEMORY_DATABASE_URL", "memory-postgres"), ("NOMEMORY_QDRANT_API_KEY", "memory-qdrant")):
        assert variables[name]["secretKeyRef"]["name"] == secret, "the release contains no secrets"
    assert variables["NOMEMORY_QDRANT_SHARD_KEYS"] == "64"
    assert variables["NOMEMORY_QDRANT_REPLICATION_FACTOR"] == "3"
    assert variables["NOMEMORY_KEY_FILE"] == "/server-key/server.key"
    assert "volumeClaimTemplates" not in spec
    assert {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}} in pod["volumes"]
    spread = pod["topologySpreadConstraints"]
    assert all(constraint["labelSelector"] == spec["selector"] for constraint in spread)
    topology_keys = {constraint["topologyKey"] for constraint in spread}
    assert topology_keys == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert manifests["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


@NEEDS_HELM
def test_one_server_becomes_several_without_changes_of_immutable_fields() -> None:
    volume = {"persistence": {"enabled": True}}
    before, after = rendered(ONE_SERVER), rendered(merged(ONE_SERVER, SEVERAL_SERVERS, volume))
    for field in ("serviceName", "podManagementPolicy", "selector", "volumeClaimTemplates"):
        assert before["StatefulSet"]["spec"][field] == after["StatefulSet"]["spec"][field]
    for kind in ("Service", "HeadlessService"):
        assert before[kind]["spec"].get("clusterIP") == after[kind]["spec"].get("clusterIP")


@NEEDS_HELM
def test_a_stopping_pod_accepts_calls_while_other_servers_take_over() -> None:
    seconds = int(container_of(rendered("cluster-values.yaml"))["lifecycle"]["preStop"]["exec"]["command"][1])
    drain_timeout_s = Settings.from_environment().timing.drain_timeout_s
    assert VALUES["terminationGracePeriodSeconds"] >= seconds + 2 * drain_timeout_s
    assert "lifecycle" not in container_of(rendered("tls-values.yaml"))


@NEEDS_HELM
def test_a_drain_may_evict_pods_that_are_not_ready() -> None:
    assert rendered("cluster-values.yaml")["PodDisruptionBudget"]["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@NEEDS_HELM
def test_a_service_monitor_scrapes_each_pod_once() -> None:
    manifests = rendered("tls-values.yaml")
    [endpoint] = manifests["ServiceMonitor"]["spec"]["endpoints"]
    [service] = [
        kind
        for kind in ("Service", "HeadlessService")
        if endpoint["port"] in {port["name"] for port in manifests[kind]["spec"]["ports"]}
    ]
    assert service == "Service"


@NEEDS_HELM
def test_a_service_monitor_trusts_the_certificate_of_a_tls_secret() -> None:
    [endpoint] = rendered("tls-values.yaml")["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    certificate = {"secret": {"name": "memory-tls", "key": "tls.crt"}}  # `kubectl create secret tls` adds no ca.crt
    assert endpoint["tlsConfig"] == {"ca": certificate, "serverName": "memory.example"}
    assert endpoint["authorization"] == {"credentials": {"name": "memory-metrics", "key": "token"}}


@NEEDS_HELM
def test_a_service_monitor_uses_the_configured_ca() -> None:
    options = {"ca": {"configMap": {"name": "ca", "key": "ca.crt"}}, "serverName": "memory.example"}
    values = {"metrics": {"serviceMonitor": {"tlsConfig": options}}}
    [endpoint] = rendered("tls-values.yaml", values)["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == options


@NEEDS_HELM
def test_a_service_monitor_with_tls_requires_a_server_name() -> None:
    error = error_of(ONE_SERVER | {"metrics": {"serviceMonitor": {"enabled": True}}})
    assert "metrics.serviceMonitor.tlsConfig.serverName is required" in error


@NEEDS_HELM
@pytest.mark.parametrize("values", VALUES_FILES)
def test_the_server_accepts_the_settings_of_each_values_file(values: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"NOMEMORY_DATABASE_URL": "postgresql://database/nomemory"}
    for name, value in variables_of(rendered(values)).items():
        monkeypatch.setenv(name, value if isinstance(value, str) else secrets.get(name, "a secret of the cluster"))
    settings = Settings.from_environment()
    assert parse_listen_address(settings.server.listen).port == PORTS["grpc"]
    assert settings.metrics.listen == f"0.0.0.0:{PORTS['metrics']}"


@NEEDS_HELM
def test_settings_keep_their_value(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "NOMEMORY_PROCESS_MEMORY_BYTES": 8589934592,
        "NOMEMORY_MIN_FREE_DISK_BYTES": 32000000,
        "NOMEMORY_TRACE_SAMPLE_RATIO": 0.05,
        "NOMEMORY_RETENTION_DAYS": 365.0,
        "NOMEMORY_REFLECTION": False,
        "NOMEMORY_LOG_LEVEL": "debug",
        "NOMEMORY_TRACE_SERVICE_NAME": "0x10",
    }
    variables = variables_of(rendered(ONE_SERVER | {"settings": settings}))
    assert variables["NOMEMORY_PROCESS_MEMORY_BYTES"] == "8589934592"
    assert variables["NOMEMORY_TRACE_SERVICE_NAME"] == "0x10"
    for name in settings:
        monkeypatch.setenv(name, variables[name])
    read = Settings.from_environment()
    assert read.server.min_free_disk_bytes == 32000000
    assert read.tracing.sample_ratio == 0.05
    assert read.server.reflection is False


@NEEDS_HELM
@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        ("NOMEMORY_DATABASE_URL", "database.existingSecret"),
        ("NOMEMORY_QDRANT_URL", "qdrant.url"),
        ("NOMEMORY_METRICS_TOKEN", "metrics.tokenSecret"),
        ("NOMEMORY_TLS_CERT", "tls.existingSecret"),
        ("NOMEMORY_JWT_SECRET", "envFrom with a secret"),
    ],
)
def test_settings_with_their_own_value_and_secrets_are_rejected(name: str, replacement: str) -> None:
    assert f"settings: remove {name} and use {replacement} instead" in error_of(ONE_SERVER, {"settings": {name: "x"}})


def test_every_variable_of_the_chart_is_reserved() -> None:
    templates = CHART / "templates"
    set_by_chart = set(re.findall(r"\bNOMEMORY_\w+", (templates / "statefulset.yaml").read_text("utf-8")))
    reserved = set(re.findall(r"^(NOMEMORY_\w+): ", (templates / "_helpers.tpl").read_text("utf-8"), re.MULTILINE))
    assert set_by_chart <= reserved


@NEEDS_HELM
@pytest.mark.parametrize(
    ("destination", "values"),
    [
        ("database", {"database": {"existingSecret": "database"}}),
        ("qdrant", {"qdrant": {"url": "grpc://qdrant:6334"}}),
        ("model", {"settings": {"OPENAI_BASE_URL": "https://model.example/v1"}}),
        ("model", {"settings": {"NOMEMORY_RECALL_MODEL": "chat"}}),
        ("model", {"settings": {"NOMEMORY_EMBEDDER": "openai"}}),
        ("jwks", {"settings": {"NOMEMORY_JWT_JWKS": "https://login.example/jwks.json"}}),
        ("otlp", {"settings": {"NOMEMORY_OTLP_ENDPOINT": "http://collector:4317"}}),
    ],
)
def test_configured_services_require_their_egress_switch(destination: str, values: dict[str, Any]) -> None:
    values = ONE_SERVER | values
    assert f"networkPolicy.egress.{destination}.enabled must be true" in error_of(values)
    policy = {"egress": {destination: {"enabled": True}}}
    rules = rendered(values | {"networkPolicy": policy})["NetworkPolicy"]["spec"]["egress"]
    port = VALUES["networkPolicy"]["egress"][destination]["port"]
    assert rules[1:] == [{"ports": [{"port": port, "protocol": "TCP"}]}]
    assert "NetworkPolicy" not in rendered(values | {"networkPolicy": {"enabled": False}})
    extra = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}
    rules = rendered(values | {"networkPolicy": {"extraEgress": [extra]}})["NetworkPolicy"]["spec"]["egress"]
    assert rules[1:] == [extra]


@NEEDS_HELM
def test_egress_is_limited_to_dns_and_the_peers_of_each_destination() -> None:
    assert len(rendered("tls-values.yaml")["NetworkPolicy"]["spec"]["egress"]) == 1
    dns, *rules = rendered("model-values.yaml")["NetworkPolicy"]["spec"]["egress"]
    assert {port["port"] for port in dns["ports"]} == {53}
    assert [rule["ports"][0]["port"] for rule in rules] == [8000, 443, 4317]
    egress = loaded(CHART / "ci" / "model-values.yaml")["networkPolicy"]["egress"]
    assert [rule.get("to") for rule in rules] == [egress[name].get("to") for name in ("model", "jwks", "otlp")]


@NEEDS_HELM
def test_a_key_set_in_a_file_needs_no_egress() -> None:
    volume = {"name": "jwks", "configMap": {"name": "jwks"}}
    mount = {"name": "jwks", "mountPath": "/jwks", "readOnly": True}
    settings = {"NOMEMORY_JWT_JWKS": "/jwks/jwks.json"}
    values = {"settings": settings, "extraVolumes": [volume], "extraVolumeMounts": [mount]}
    manifests = rendered(ONE_SERVER | values)
    assert volume in manifests["StatefulSet"]["spec"]["template"]["spec"]["volumes"]
    assert mount in container_of(manifests)["volumeMounts"]


@NEEDS_HELM
@pytest.mark.parametrize("wrong", [{"serverKey": {"existingSecret": ""}}, {"backup": {"existingClaim": "backup"}}])
def test_incomplete_cluster_values_are_rejected(wrong: dict[str, Any]) -> None:
    assert next(iter(wrong)) in error_of("cluster-values.yaml", wrong)


def notes_of(tmp_path: Path, *values: dict[str, Any] | str) -> str:
    """Return the notes of an installation."""
    chart = tmp_path / "nomemory"
    shutil.copytree(CHART, chart, dirs_exist_ok=True)
    template = '{kind: Notes, text: {{ include (print .Template.BasePath "/NOTES.txt") . | quote }}}'
    (chart / "templates" / "notes.yaml").write_text(template, "utf-8")
    [text] = [
        manifest["text"]
        for manifest in yaml.safe_load_all(run_helm(*values, chart=chart).stdout)
        if manifest["kind"] == "Notes"
    ]
    assert isinstance(text, str)
    return text


@NEEDS_HELM
def test_notes_copy_a_backup_off_the_volume_of_the_messages(tmp_path: Path) -> None:
    commands = re.findall(r"kubectl .*", notes_of(tmp_path, ONE_SERVER).partition("To create a backup")[2])
    create, copy, delete = commands
    assert create.endswith("nomemory backup --out /data/backup")
    assert "cp memory-nomemory-0:/data/backup backup-" in copy
    assert delete.endswith("rm -r /data/backup")


@NEEDS_HELM
def test_notes_create_a_backup_in_the_volume_for_backups(tmp_path: Path) -> None:
    notes = notes_of(tmp_path, "tls-values.yaml")
    assert "nomemory backup --out /backup/" in notes
    assert "/data/backup" not in notes
    manifests = rendered("tls-values.yaml")
    assert {"name": "backup", "mountPath": "/backup"} in container_of(manifests)["volumeMounts"]
    claim = {"name": "backup", "persistentVolumeClaim": {"claimName": "memory-backup"}}
    assert claim in manifests["StatefulSet"]["spec"]["template"]["spec"]["volumes"]


@NEEDS_HELM
def test_notes_use_a_host_name_of_the_certificate(tmp_path: Path) -> None:
    assert "https://memory.example:9464/metrics" in notes_of(tmp_path, "tls-values.yaml")
    assert "http://localhost:9464/metrics" in notes_of(tmp_path, "mesh-values.yaml")
