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
FILES = [ROOT / "Dockerfile", *(path for path in sorted(DEPLOY.rglob("*")) if path.is_file())]
GRPC, HTTP, METRICS = 7700, 8080, 9464
VARIABLE_OF_COMPOSE = re.compile(r"\$\{[A-Z_]+:\?[^}]+\}")


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_all_environment_variables_exist(file: Path) -> None:
    named = set(VARIABLE.findall(file.read_text("utf-8")))
    assert named - OF_THE_COMMAND_LINE <= VARIABLES


def test_image_user_matches_chart_and_volume() -> None:
    uid, gid = map(int, instruction("USER").split(":"))
    [prepared] = [operands for word, operands in instructions() if word == "RUN"]
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


def test_health_check_has_only_options_that_every_builder_accepts() -> None:
    options = instruction("HEALTHCHECK").partition(" CMD ")[0].split()
    names = {option.partition("=")[0] for option in options}
    assert names == {"--interval", "--timeout", "--start-period", "--retries"}, (
        "not --start-interval: Buildah refuses it"
    )


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


def test_documented_health_check_interval_is_that_of_the_image() -> None:
    [interval] = re.findall(r"--interval=(\d+)s", instruction("HEALTHCHECK"))
    page = (ROOT / "docs" / "deployment.md").read_text("utf-8")
    assert f"The health check calls `grpc.health.v1` every {interval} seconds" in page


@pytest.mark.parametrize(("compose", "names"), [(COMPOSE, ["nomemory"]), (CLUSTER, REPLICAS)], ids=["one", "cluster"])
def test_compose_servers_read_further_settings_from_a_file(compose: dict[str, Any], names: list[str]) -> None:
    for name in names:
        service = compose["services"][name]
        assert service["env_file"] == [{"path": "nomemory.env", "required": False}]
        assert service["extra_hosts"] == ["host.docker.internal:host-gateway"]
        assert not {variable for variable in service["environment"] if "MODEL" in variable}


def test_documented_environment_files_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    [block] = of_page("docs/deployment.md", "ini")
    for line in block.text.splitlines():
        monkeypatch.setenv(*line.split("=", 1))
    settings = Settings.from_environment()
    assert settings.recall.model
    assert settings.recall.model_timeout_s == 60


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
    first, other = (services[name]["environment"] for name in REPLICAS)
    assert first == other
    log = urlsplit(VARIABLE_OF_COMPOSE.sub("x", first["NOMEMORY_DATABASE_URL"]))
    assert log.username == "nomemory"
    assert {"postgres", "standby"} == set(log.netloc.partition("@")[2].split(","))
    assert parse_qs(log.query) == {"target_session_attrs": ["primary"]}, "or a replica writes to the standby"
    alias = urlsplit(first["NOMEMORY_QDRANT_URL"])
    assert (alias.scheme, alias.port) == ("grpc", 6334)
    for name in QDRANT:
        assert services[name]["networks"]["back"]["aliases"] == [alias.hostname]
        assert services[name]["environment"]["QDRANT__SERVICE__API_KEY"] == first["NOMEMORY_QDRANT_API_KEY"]
        assert services[name]["command"][-2:] == ["--uri", f"http://{name}:6335"]
        begins = "--bootstrap" not in services[name]["command"]
        assert begins == (name == QDRANT[0])
        assert begins or services[name]["command"][2] == f"http://{QDRANT[0]}:6335"
    assert int(first["NOMEMORY_QDRANT_REPLICATION_FACTOR"]) <= len(QDRANT)
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


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_every_query_of_the_dashboard(tmp_path: Path) -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "nomemory.json").read_text("utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    queries += [item["expr"] for item in dashboard["annotations"]["list"] if "expr" in item]
    expressions = [query.replace("$__rate_interval", "5m").replace("$instance", "server") for query in queries]
    rules = [{"record": f"query_{number}", "expr": expression} for number, expression in enumerate(expressions)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), "utf-8")
    subprocess.run(["promtool", "check", "rules", str(file)], check=True)  # noqa: S607 - found in PATH


def test_unit_uses_its_own_directories() -> None:
    unit_options = unit(SERVICE)
    variables = environment(SERVICE)
    assert variables["NOMEMORY_DATA"] == f"%S/{unit_options['StateDirectory'][0]}"
    assert variables["NOMEMORY_EMBEDDING_MODEL_CACHE_DIR"] == f"%C/{unit_options['CacheDirectory'][0]}"
    assert variables["SQLITE_TMPDIR"] == variables["NOMEMORY_DATA"]
    for name, value in (
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""),
    ):
        assert unit_options[name] == [value]
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
