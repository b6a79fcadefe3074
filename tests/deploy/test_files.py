"""The deployment files match the server: variables, ports, users and versions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from deploy.files import (
    CHART,
    DEPLOY,
    ROOT,
    VARIABLE,
    VERSION,
    environment,
    instruction,
    instructions,
    loaded,
    pairs,
    unit,
)
from documentation.blocks import of_page
from jsonschema import Draft7Validator, ValidationError

from nomemory.server.runtime.listen_address import parse_listen_address
from nomemory.server.runtime.settings import Settings

VARIABLES = set(re.findall(r"^- `(\w+)`", (ROOT / "docs" / "settings.md").read_text("utf-8"), re.MULTILINE))
OF_THE_COMMAND_LINE = {"NOMEMORY_API_KEY"}
SERVICE = DEPLOY / "systemd" / "nomemory.service"
OPEN = DEPLOY / "systemd" / "open.conf"
COMPOSE: dict[str, Any] = loaded(DEPLOY / "compose.yaml")
CLUSTER: dict[str, Any] = loaded(DEPLOY / "compose.cluster.yaml")
COMPOSE_FILES = pytest.mark.parametrize("compose", [COMPOSE, CLUSTER], ids=["one", "cluster"])
REPLICAS = ("nomemory-1", "nomemory-2")
QDRANT = ("qdrant-1", "qdrant-2", "qdrant-3")
STATEFULSET = (CHART / "templates" / "statefulset.yaml").read_text("utf-8")
VALUES: dict[str, Any] = loaded(CHART / "values.yaml")
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
HELM = next(
    (path for path in (shutil.which("helm"), ROOT / ".venv/go/helm/helm") if path and Path(path).exists()), None
)
FILES = [ROOT / "Dockerfile", *(path for path in sorted(DEPLOY.rglob("*")) if path.is_file())]
GRPC, HTTP, METRICS = 7700, 8080, 9464
VARIABLE_OF_COMPOSE = re.compile(r"\$\{[A-Z_]+:\?[^}]+\}")


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_all_environment_variables_exist(file: Path) -> None:
    named = set(VARIABLE.findall(file.read_text("utf-8")))
    assert named - OF_THE_COMMAND_LINE <= VARIABLES


def test_image_user_matches_chart_and_volume() -> None:
    uid, gid = map(int, instruction("USER").split(":"))
    [prepared] = [said for word, said in instructions() if word == "RUN"]
    assert f"--gid {gid} " in prepared
    assert f"--uid {uid} " in prepared
    for name, number in (("runAsUser", uid), ("runAsGroup", gid), ("fsGroup", gid)):
        assert set(re.findall(rf"{name}: (\d+)", STATEFULSET)) == {str(number)}


def test_image_port_matches_other_files() -> None:
    assert instruction("EXPOSE") == str(GRPC)
    assert parse_listen_address(pairs("ENV")["NOMEMORY_LISTEN"]).port == GRPC
    assert parse_listen_address(Settings.from_environment().server.listen).port == GRPC


def test_image_writes_only_to_its_volume() -> None:
    volume = instruction("VOLUME")
    variables = pairs("ENV")
    for name in ("NOMEMORY_DATA", "NOMEMORY_EMBEDDING_MODEL_CACHE_DIR", "SQLITE_TMPDIR"):
        assert variables[name].startswith(volume)
    assert COMPOSE["services"]["nomemory"]["volumes"] == [f"data:{volume}"]
    assert f"mountPath: {volume}}}" in STATEFULSET


def test_image_and_chart_use_the_same_health_check() -> None:
    command = instruction("HEALTHCHECK").partition(" CMD ")[2]
    assert json.loads(command) == ["python", "-m", "nomemory.server.runtime.healthcheck"]
    helpers = (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
    assert "command: [python, -m, nomemory.server.runtime.healthcheck]" in helpers
    assert f"grpc: {{port: {GRPC}}}" in helpers


def test_all_files_have_the_same_version() -> None:
    chart = loaded(CHART / "Chart.yaml")
    assert {chart["version"], chart["appVersion"]} == {VERSION}
    assert pairs("LABEL")["org.opencontainers.image.version"] == VERSION
    images = {service["image"] for compose in (COMPOSE, CLUSTER) for service in compose["services"].values()}
    assert {image for image in images if image.startswith("nomemory:")} == {f"nomemory:{VERSION}"}


@COMPOSE_FILES
def test_compose_publishes_ports_on_loopback_only(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        serving = {published.split(":")[2] for published in service.get("ports", [])}
        assert all(published.startswith("127.0.0.1:") for published in service.get("ports", []))
        if service["image"].startswith("nomemory:") and serving:
            variables = service["environment"]
            listening = [
                parse_listen_address(variables[item]).port for item in ("NOMEMORY_LISTEN", "NOMEMORY_METRICS_LISTEN")
            ]
            assert listening == [GRPC, METRICS], name
            assert serving == {str(GRPC), str(METRICS)}, name


def test_only_servers_are_reachable_from_outside_the_cluster() -> None:
    published = [name for name, service in CLUSTER["services"].items() if "ports" in service]
    assert tuple(published) == REPLICAS
    assert CLUSTER["networks"]["back"]["internal"]
    for name, service in CLUSTER["services"].items():
        assert name in REPLICAS or service.get("network_mode") == "none" or set(service["networks"]) == {"back"}


@COMPOSE_FILES
def test_compose_services_have_minimal_privileges(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["mem_limit"]
        if service["image"].startswith("nomemory:") and "ports" in service:
            assert service["read_only"]
            assert service["init"]


def test_cluster_services_are_read_only_and_have_limits() -> None:
    for name, service in CLUSTER["services"].items():
        assert service["read_only"], name
        assert service["pids_limit"], name
        assert "cpus" in service or name == "keys"


def test_compose_starts_only_the_server_by_default() -> None:
    assert {name for name, item in COMPOSE["services"].items() if "profiles" not in item} == {"nomemory"}


@COMPOSE_FILES
def test_mounted_files_exist(compose: dict[str, Any]) -> None:
    mounted = set()
    for service in compose["services"].values():
        for volume in service["volumes"]:
            if isinstance(volume, dict):
                assert (DEPLOY / volume["source"]).exists()
            else:
                mounted.add(volume.split(":")[0])
        for config in service.get("configs", []):
            file = DEPLOY / compose["configs"][config["source"]]["file"]
            assert os.access(file, os.X_OK)
    assert mounted == set(compose["volumes"])


def test_cluster_host_names_match() -> None:
    services = CLUSTER["services"]
    one, other = (services[name]["environment"] for name in REPLICAS)
    assert one == other
    log = urlsplit(VARIABLE_OF_COMPOSE.sub("x", one["NOMEMORY_DATABASE_URL"]))
    assert log.username == "nomemory"
    assert {"postgres", "standby"} == set(log.netloc.partition("@")[2].split(","))
    assert parse_qs(log.query) == {"target_session_attrs": ["primary"]}, "or a replica writes to the standby"
    alias = urlsplit(one["NOMEMORY_QDRANT_URL"])
    assert (alias.scheme, alias.port) == ("grpc", 6334)
    for name in QDRANT:
        assert services[name]["networks"]["back"]["aliases"] == [alias.hostname]
        assert services[name]["environment"]["QDRANT__SERVICE__API_KEY"] == one["NOMEMORY_QDRANT_API_KEY"]
        assert services[name]["command"][-2:] == ["--uri", f"http://{name}:6335"]
        begins = "--bootstrap" not in services[name]["command"]
        assert begins == (name == QDRANT[0])
        assert begins or services[name]["command"][2] == f"http://{QDRANT[0]}:6335"
    assert int(one["NOMEMORY_QDRANT_REPLICATION_FACTOR"]) <= len(QDRANT)
    assert services["standby"]["environment"]["PRIMARY_HOST"] == "postgres"


def test_cluster_settings_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CLUSTER["services"]["nomemory-1"]["environment"].items():
        monkeypatch.setenv(name, VARIABLE_OF_COMPOSE.sub("of-a-test-and-no-more", value))
    settings = Settings.from_environment()
    assert settings.vector.qdrant_shard_keys == 64
    assert settings.server.database_url is not None


def test_cluster_services_wait_for_health_checks() -> None:
    for name, service in CLUSTER["services"].items():
        of_the_image = service["image"].startswith("nomemory:")
        assert of_the_image or service["healthcheck"]["test"][0] == "CMD", name
        for needed, how in service.get("depends_on", {}).items():
            ends = CLUSTER["services"][needed]["restart"] == "no"
            assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy")


def test_cluster_secrets_have_no_default() -> None:
    for service in CLUSTER["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN|API_KEY$", name):
                assert VARIABLE_OF_COMPOSE.fullmatch(value), name


def test_prometheus_scrapes_with_token_and_loads_alerts() -> None:
    configuration = loaded(DEPLOY / "prometheus" / "prometheus.yaml")
    [job] = configuration["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"nomemory:{METRICS}"]}]
    [secret] = COMPOSE["services"]["prometheus"]["secrets"]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
    assert COMPOSE["secrets"][secret] == {"environment": "NOMEMORY_METRICS_TOKEN"}
    for file in configuration["rule_files"]:
        assert (DEPLOY / "prometheus" / file).exists()


def test_grafana_has_data_source_and_dashboard() -> None:
    folder = DEPLOY / "grafana" / "provisioning"
    [source] = loaded(folder / "datasources" / "prometheus.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"]
    [provider] = loaded(folder / "dashboards" / "nomemory.yaml")["providers"]
    shown = [item["target"] for item in COMPOSE["services"]["grafana"]["volumes"] if isinstance(item, dict)]
    home = COMPOSE["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home in shown
    assert str(Path(home).parent) == provider["options"]["path"]


def test_unit_uses_its_own_directories() -> None:
    said = unit(SERVICE)
    variables = environment(SERVICE)
    assert variables["NOMEMORY_DATA"] == f"%S/{said['StateDirectory'][0]}"
    assert variables["NOMEMORY_EMBEDDING_MODEL_CACHE_DIR"] == f"%C/{said['CacheDirectory'][0]}"
    assert variables["SQLITE_TMPDIR"] == variables["NOMEMORY_DATA"]
    for name, value in (
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""),
    ):
        assert said[name] == [value]
    assert parse_listen_address(variables["NOMEMORY_LISTEN"]).is_loopback()


def test_unit_stop_timeout_covers_drain_timeout() -> None:
    [patience] = unit(SERVICE)["TimeoutStopSec"]
    assert int(patience) >= 2 * Settings.from_environment().timing.drain_timeout_s
    assert VALUES["terminationGracePeriodSeconds"] >= 2 * Settings.from_environment().timing.drain_timeout_s


def test_drop_in_loads_its_credentials() -> None:
    handed = {item.split(":")[0] for item in unit(OPEN)["LoadCredential"]}
    named = {item.removeprefix("%d/") for item in environment(OPEN).values() if item.startswith("%d/")}
    assert handed == named
    assert not parse_listen_address(environment(OPEN)["NOMEMORY_LISTEN"]).is_loopback()


@pytest.mark.parametrize("file", ["values.yaml", *sorted(f"ci/{path.name}" for path in (CHART / "ci").iterdir())])
def test_values_match_the_schema(file: str) -> None:
    Draft7Validator.check_schema(SCHEMA)
    Draft7Validator(SCHEMA).validate(VALUES | loaded(CHART / file))


def test_documented_values_match_the_schema() -> None:
    for block in of_page("docs/deployment.md", "yaml"):
        Draft7Validator(SCHEMA).validate(VALUES | yaml.safe_load(block.text))


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
    ],
)
def test_invalid_values_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Draft7Validator(SCHEMA).validate(VALUES | wrong)


def test_schema_describes_every_value() -> None:
    def names(of: dict[str, Any], schema: dict[str, Any], path: str = "") -> None:
        for name, value in of.items():
            known = schema["properties"][name]
            if isinstance(value, dict) and "properties" in known:
                names(value, known, f"{path}{name}.")

    names(VALUES, SCHEMA)


def rendered(values: str, *more: str) -> dict[str, dict[str, Any]]:
    """Return what helm makes of the chart, by kind."""
    command = [str(HELM), "template", "memory", str(CHART), "--kube-version", "1.37.0", "--values"]
    done = subprocess.run([*command, str(CHART / "ci" / values), *more], capture_output=True, text=True, check=True)
    return {item["kind"]: item for item in yaml.safe_load_all(done.stdout)}


@pytest.mark.skipif(HELM is None, reason="helm is not installed; scripts/check_deploy builds it where there is Go")
@pytest.mark.parametrize("values", sorted(path.name for path in (CHART / "ci").iterdir()))
def test_chart_has_minimal_privileges(values: str) -> None:
    made = rendered(values)
    pod = made["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert made["StatefulSet"]["spec"]["replicas"] == loaded(CHART / "ci" / values).get("replicas", 1)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["resources"]["limits"]["memory"]
    ports = {item["name"]: item["containerPort"] for item in container["ports"]}
    assert {port["targetPort"] for port in made["Service"]["spec"]["ports"]} == set(ports)
    listening = {item["name"]: item.get("value", "") for item in container["env"]}
    for name, port in ports.items():
        variable = {"grpc": "NOMEMORY_LISTEN", "http": "NOMEMORY_HTTP_LISTEN", "metrics": "NOMEMORY_METRICS_LISTEN"}[
            name
        ]
        assert parse_listen_address(listening[variable]).port == port
        assert port == {"grpc": GRPC, "http": HTTP, "metrics": METRICS}[name]
    mounted = {item["name"] for item in container["volumeMounts"]}
    assert mounted == {"data", *(item["name"] for item in pod["volumes"])}
    labels = made["StatefulSet"]["spec"]["selector"]["matchLabels"]
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
        assert labels in (
            made[kind]["spec"].get("selector"),
            made[kind]["spec"].get("selector", {}).get("matchLabels"),
            made[kind]["spec"].get("podSelector", {}).get("matchLabels"),
        )
    assert labels.items() <= made["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.skipif(HELM is None, reason="helm is not installed; scripts/check_deploy builds it where there is Go")
def test_health_check_uses_grpc_probe_or_program_with_tls() -> None:
    for values, way, alive in (
        ("mesh-values.yaml", "grpc", "grpc"),
        ("tls-values.yaml", "exec", "exec"),
        ("cluster-values.yaml", "exec", "tcpSocket"),  # a database that is away is no reason to restart
    ):
        [container] = rendered(values)["StatefulSet"]["spec"]["template"]["spec"]["containers"]
        assert all(way in container[f"{probe}Probe"] for probe in ("startup", "readiness"))
        assert alive in container["livenessProbe"]


@pytest.mark.skipif(HELM is None, reason="helm is not installed; scripts/check_deploy builds it where there is Go")
def test_cluster_servers_share_database_and_key() -> None:
    made = rendered("cluster-values.yaml")
    spec = made["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    variables = {item["name"]: item for item in pod["containers"][0]["env"]}
    for name, secret in (("NOMEMORY_DATABASE_URL", "memory-postgres"), ("NOMEMORY_QDRANT_API_KEY", "memory-qdrant")):
        assert variables[name]["valueFrom"]["secretKeyRef"]["name"] == secret, "nothing secret is in the release"
    assert variables["NOMEMORY_QDRANT_SHARD_KEYS"]["value"] == "64"
    assert variables["NOMEMORY_QDRANT_REPLICATION_FACTOR"]["value"] == "3"
    assert variables["NOMEMORY_KEY_FILE"]["value"] == "/server-key/server.key"
    assert "volumeClaimTemplates" not in spec
    assert {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}} in pod["volumes"]
    selector = spec["selector"]
    spread = pod["topologySpreadConstraints"]
    assert all(item["labelSelector"] == selector for item in spread)
    assert {item["topologyKey"] for item in spread} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert made["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert made["Service"]["spec"]["clusterIP"] == "None"


@pytest.mark.skipif(HELM is None, reason="helm is not installed; scripts/check_deploy builds it where there is Go")
@pytest.mark.parametrize(
    "wrong", ["settings.NOMEMORY_DATABASE_URL=x", "settings.NOMEMORY_QDRANT_URL=x", "serverKey.existingSecret="]
)
def test_incomplete_cluster_values_are_rejected(wrong: str) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        rendered("cluster-values.yaml", "--set", wrong)
