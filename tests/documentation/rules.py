"""The rules that assign a test to every code block on the pages.

The first matching rule applies. Commands that no test runs are still checked: their options, variables and scripts must
exist (test_commands.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from documentation.blocks import Block

COMMANDS = "tests/documentation/test_commands.py::test_every_documented_command_is_valid"
IMPORTED = "tests/documentation/test_importing_page.py::test_every_documented_example_is_imported"
DUMPED = "tests/documentation/test_importing_page.py::test_dump_can_be_reimported"
KEYS = "tests/documentation/test_authentication_page.py::test_documented_authentication_commands_work"
SHOWN = "tests/test_extending.py::test_page_shows_the_current_example_package"
INSTALLED = "tests/test_extending.py::test_server_runs_with_extension_embedder_planner_and_format"
RECALLS = "tests/recall/test_public_face.py::test_documented_program_recalls_in_its_own_process"
AUTHORING = "tests/cli/test_skills_page.py::test_documented_skill_commands_work_in_order"
CORRECTS = "tests/documentation/test_concepts_page.py::test_documented_correction_prints_the_output_on_the_page"
OF_THE_PACKAGE = "tests/test_distributions.py::test_wheels_have_the_license_and_the_same_example"
CLIENT_RUNS = "tests/clients/test_examples.py::test_example_writes_searches_and_recalls"
README = "tests/test_first_steps.py::test_readme_python_example_prints_the_documented_output"
QUICKSTART = "tests/test_first_steps.py::test_quickstart_prints_the_answer_on_the_page"
TALKS = "tests/test_tutorial.py::test_each_command_prints_the_output_on_the_page"
IS_THE_EXAMPLE = "tests/test_tutorial.py::test_program_on_the_page_is_the_example"
CALLED = "tests/test_first_steps.py::test_grpcurl_commands_of_other_pages_work"
TYPED = "tests/test_first_steps.py::test_commands_of_other_pages_work"
PROGRAM = "tests/test_first_steps.py::test_python_examples_of_other_pages_work"
LISTED = "tests/documentation/test_every_block.py::test_every_block_has_a_rule"
UNFOLDS = "tests/inspector/test_demo.py::test_demo_opens_a_recall_in_the_inspector"
PARSED = "tests/documentation/test_data.py::test_json_blocks_are_valid"


@dataclass(frozen=True)
class Rule:
    """A page, a language and a prefix of blocks, and the test that checks them.

    Attributes: why: the reason if the test does not run the blocks.
    """

    page: str
    language: str
    test: str
    starts: str = ""
    why: str = ""

    def fits(self, block: Block) -> bool:
        """Return whether the rule matches a block."""
        return (self.page, self.language) == (block.page, block.language) and block.text.startswith(self.starts)


SERVES = "it serves until it is stopped; the tests start such a server themselves"
INSTALLS = "it takes minutes; scripts/check_dists installs the packages"
IN_CI = "it makes its environment, or takes minutes; .ci/run runs it"
OF_OTHERS = "it needs another program, or somebody's key"
OF_CLUSTERS = "it needs a cluster; scripts/check_deploy renders the chart"
OF_ENGINES = "it needs a container engine; scripts/check_dists runs the image's commands without one"

RULES = (
    *(
        rule
        for page in ("README.md", "README.zh.md", "website/landing.md")
        for rule in (Rule(page, "sh", COMMANDS, why=INSTALLS), Rule(page, "python", README), Rule(page, "", README))
    ),
    Rule("CONTRIBUTING.md", "sh", COMMANDS, why=IN_CI),
    Rule(
        "ARCHITECTURE.md", "", "tests/documentation/test_data.py::test_folders_in_the_architecture_tree_exist", "proto/"
    ),
    Rule("ARCHITECTURE.md", "", "tests/test_layout.py::test_packages_import_only_lower_layers", "text, spans  <"),
    Rule("docs/authentication.md", "sh", KEYS),
    Rule("docs/authentication.md", "python", KEYS),
    Rule(
        "docs/authentication.md", "json", "tests/documentation/test_data.py::test_documented_certificate_file_is_valid"
    ),
    Rule("docs/clients.md", "sh", COMMANDS, why=IN_CI),
    Rule(
        "docs/deletion.md",
        "sh",
        "tests/cli/test_postgres_erasures.py::test_register_is_applied_to_a_restored_database",
        "export NOMEMORY_DATABASE_URL",
    ),
    Rule("docs/deletion.md", "sh", "tests/cli/test_restored_erasures.py::test_a_restore_applies_an_exported_register"),
    Rule("docs/deployment.md", "sh", COMMANDS, "docker build", OF_ENGINES),
    Rule("docs/deployment.md", "sh", COMMANDS, "docker run", OF_ENGINES),
    Rule("docs/deployment.md", "sh", COMMANDS, "cd deploy", OF_ENGINES),
    Rule("docs/deployment.md", "sh", COMMANDS, "docker compose", OF_ENGINES),
    Rule(
        "docs/deployment.md",
        "sh",
        COMMANDS,
        "nomemory keys",
        OF_CLUSTERS,
    ),
    Rule("docs/deployment.md", "sh", COMMANDS, "kubectl", OF_CLUSTERS),
    Rule("docs/deployment.md", "sh", COMMANDS, "openssl", OF_CLUSTERS),
    Rule("docs/deployment.md", "sh", COMMANDS, "sudo", "it changes the system; scripts/check_deploy verifies the unit"),
    Rule("docs/deployment.md", "sh", "tests/deploy/test_sbom.py::test_sbom_lists_dependencies_but_no_tools"),
    Rule("docs/deployment.md", "ini", "tests/deploy/test_files.py::test_documented_environment_files_are_valid"),
    Rule("docs/deployment.md", "yaml", "tests/deploy/test_chart.py::test_documented_values_match_the_schema"),
    Rule("docs/embedders.md", "sh", COMMANDS, why="it needs a model's files, or an endpoint"),
    Rule("docs/extending.md", "sh", SHOWN, "pip install"),
    Rule(
        "docs/extending.md",
        "sh",
        INSTALLED,
    ),
    Rule("docs/extending.md", "toml", SHOWN),
    Rule("docs/extending.md", "python", SHOWN, '"""'),
    Rule("docs/extending.md", "python", "tests/test_extending.py::test_example_package_tests_pass"),
    Rule(
        "docs/extending.md",
        "json",
        INSTALLED,
    ),
    Rule("docs/first-steps.md", "sh", COMMANDS, "nomemory serve", SERVES),
    Rule("docs/first-steps.md", "sh", QUICKSTART, "nomemory quickstart"),
    Rule("docs/first-steps.md", "", QUICKSTART),
    Rule("docs/first-steps.md", "sh", "tests/test_first_steps.py::test_grpcurl_commands_work", "grpcurl"),
    Rule("docs/first-steps.md", "sh", "tests/test_first_steps.py::test_quickstart_commands_work"),
    Rule("docs/concepts.md", "", CORRECTS),
    Rule("docs/concepts.md", "python", CORRECTS),
    Rule("docs/first-steps.md", "python", "tests/test_first_steps.py::test_python_example_works"),
    Rule("docs/frameworks.md", "python", "tests/frameworks/test_page.py::test_documented_example_finds_the_message"),
    Rule("docs/http.md", "sh", COMMANDS, ".venv/bin/nomemory serve", SERVES),
    Rule("docs/http.md", "sh", "tests/web/test_http_page.py::test_documented_commands_work_in_order"),
    Rule("docs/http.md", "json", PARSED, why="an answer"),
    Rule(
        "docs/importing.md",
        "sh",
        DUMPED,
        "nomemory export",
    ),
    Rule(
        "docs/importing.md", "sh", COMMANDS, "nomemory import ~", "tests/importing/test_transcripts.py reads such files"
    ),
    Rule(
        "docs/importing.md",
        "sh",
        IMPORTED,
    ),
    Rule(
        "docs/importing.md",
        "json",
        IMPORTED,
    ),
    Rule(
        "docs/importing.md",
        "jsonl",
        IMPORTED,
    ),
    Rule(
        "docs/importing.md",
        "text",
        IMPORTED,
    ),
    Rule("docs/inspector.md", "sh", UNFOLDS, "./scripts/demo"),
    Rule("docs/inspector.md", "sh", COMMANDS, why=SERVES),
    Rule("docs/installing.md", "sh", COMMANDS, why=INSTALLS),
    Rule(
        "docs/coding-agents.md", "sh", COMMANDS, why="tests/local_memory/test_install.py runs them in a home of its own"
    ),
    Rule("docs/mcp.md", "sh", COMMANDS, "claude", OF_OTHERS),
    Rule("docs/releasing.md", "sh", COMMANDS, why="it publishes; tests/test_release.py tries what checks it"),
    Rule("docs/mcp.md", "sh", COMMANDS, why=SERVES),
    Rule("docs/mcp.md", "json", "tests/documentation/test_data.py::test_agent_configurations_name_a_valid_command"),
    Rule("docs/tracing.md", "sh", COMMANDS, why=SERVES),
    Rule("docs/metrics.md", "yaml", "tests/metrics/test_pages.py::test_documented_scrape_configuration_is_valid"),
    Rule("docs/models.md", "sh", COMMANDS, why=OF_OTHERS),
    Rule("docs/models.md", "", "tests/server/test_chat_model_faults.py::test_documented_doctor_output_is_current"),
    Rule(
        "docs/postgresql.md",
        "sh",
        COMMANDS,
        why=OF_OTHERS,
    ),
    Rule(
        "docs/operating.md",
        "python",
        "tests/documentation/test_operating_page.py::test_documented_interceptors_can_be_installed",
    ),
    Rule("docs/operating.md", "json", PARSED, why="a line of a log; tests/identity/test_audit.py holds what is in it"),
    Rule(
        "docs/operating.md", "sh", "tests/documentation/test_operating_page.py::test_documented_operating_commands_work"
    ),
    Rule("docs/proofs.md", "sh", COMMANDS, why="it takes an hour, or a server to attack; tests/proofs runs small ones"),
    Rule("docs/quality.md", "sh", COMMANDS, why="it needs data that is not ours"),
    Rule("docs/recall.md", "", "tests/client/test_prompt_block.py::test_documented_block_equals_the_rendered_one"),
    Rule(
        "docs/recall.md",
        "python",
        RECALLS,
        "import asyncio",
    ),
    Rule("docs/recall.md", "python", PROGRAM),
    Rule("docs/recall.md", "sh", CALLED, "grpcurl"),
    Rule("docs/recall.md", "sh", COMMANDS, "nomemory serve", SERVES),
    Rule("docs/recall.md", "sh", TYPED),
    Rule("docs/skills.md", "sh", COMMANDS, "NOMEMORY_RECALL_SKILL_DIRS", SERVES),
    Rule(
        "docs/skills.md",
        "sh",
        AUTHORING,
        "nomemory skill",
    ),
    Rule("docs/skills.md", "sh", "tests/cli/test_skills_page.py::test_two_skills_return_different_views_of_one_log"),
    Rule(
        "docs/skills.md", "markdown", "tests/cli/test_skills_page.py::test_documented_skill_template_passes_the_check"
    ),
    Rule("docs/skills.md", "text", COMMANDS, why="it needs data that is not ours"),
    Rule("docs/skills.md", "", LISTED, why="a picture"),
    Rule("docs/tutorial.md", "sh", COMMANDS, "nomemory serve", SERVES),
    Rule("docs/tutorial.md", "sh", TALKS),
    Rule("docs/tutorial.md", "", TALKS),
    Rule("docs/tutorial.md", "python", IS_THE_EXAMPLE),
    Rule("docs/tutorial.zh.md", "sh", COMMANDS, "nomemory serve", SERVES),
    Rule("docs/tutorial.zh.md", "sh", TALKS),
    Rule("docs/tutorial.zh.md", "", TALKS),
    Rule("docs/tutorial.zh.md", "python", IS_THE_EXAMPLE),
    Rule(
        "clients/python/README.md",
        "python",
        OF_THE_PACKAGE,
    ),
    Rule("clients/go/README.md", "go", CLIENT_RUNS),
    Rule(
        "clients/typescript/README.md",
        "js",
        CLIENT_RUNS,
    ),
    Rule(
        "clients/java/README.md",
        "xml",
        "tests/documentation/test_data.py::test_maven_coordinates_on_the_page_match_the_pom",
    ),
    Rule(
        "clients/java/README.md",
        "sh",
        "tests/clients/test_examples.py::test_java_readme_has_the_tested_run_command",
    ),
    Rule("clients/java/README.md", "java", CLIENT_RUNS),
)
