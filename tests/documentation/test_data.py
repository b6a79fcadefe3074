"""Tests for data and diagrams on the documentation pages."""

from __future__ import annotations

import json
import re

import pytest
from documentation.blocks import ROOT, blocks, of_page
from documentation.test_commands import check_nomemory

from nomemory.server.api.identity.certificates import CertificateFile


@pytest.mark.parametrize("page", sorted({block.page for block in blocks() if block.language == "json"}))
def test_json_blocks_are_valid(page: str) -> None:
    for block in of_page(page, "json"):
        assert json.loads(block.text)


def test_documented_certificate_file_is_valid() -> None:
    (block,) = of_page("docs/authentication.md", "json")
    assert len(CertificateFile.model_validate_json(block.text).callers) == 3


def test_agent_configurations_name_a_valid_command() -> None:
    configurations = [json.loads(block.text) for block in of_page("docs/mcp.md", "json")]
    servers = [item for whole in configurations for item in (whole.get("mcpServers") or whole["servers"]).values()]
    assert len(servers) == len(configurations)
    for server in servers:
        assert server["command"] == "nomemory"
        check_nomemory(server["args"])


def test_folders_in_the_architecture_tree_exist() -> None:
    (tree,) = (block.text for block in of_page("ARCHITECTURE.md", "") if block.text.startswith("proto/"))
    folders = [line for line in tree.splitlines() if line and not line.startswith(" ")]
    folders_on_page = [folder for line in folders for folder in re.findall(r"(?:^|  )(\w\S*/)(?= |$)", line)]
    assert len(folders_on_page) > 8
    assert [folder for folder in folders_on_page if not (ROOT / folder).exists()] == []


def test_maven_coordinates_on_the_page_match_the_pom() -> None:
    (block,) = of_page("clients/java/README.md", "xml")
    named = re.findall(r"<(groupId|artifactId|version)>(.+?)<", block.text)
    pom = (ROOT / "clients" / "java" / "pom.xml").read_text(encoding="utf-8")
    assert named == re.findall(r"<(groupId|artifactId|version)>(.+?)<", pom)[:3]
