"""Tests for finding, checking and loading skills."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from recall.skills.folders import DESCRIPTION, head, written

from nomemory.recall.skills.folder import SkillInvalidError, SkillNotFoundError
from nomemory.recall.skills.loader import SkillLibrary


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


def load(*libraries: Path, name: str = "tea") -> object:
    return SkillLibrary(libraries, "default").load(name)


def refused(library: Path, reason: str) -> None:
    with pytest.raises(SkillInvalidError, match=reason) as caught:
        load(library)
    assert str(caught.value).startswith("the skill `tea` cannot be loaded: ")
    assert str(library) not in str(caught.value)


def test_a_skill_is_a_folder(library: Path) -> None:
    written(library, references__lexicon_md="tea: 茶", scripts__examples_md="{}")
    skill = SkillLibrary([library], "default").load("tea")
    assert (skill.name, skill.description) == ("tea", DESCRIPTION)
    assert skill.body == "# Tea\n\nSearch for tea."
    assert skill.references == {"references/lexicon.md": "tea: 茶", "scripts/examples.md": "{}"}
    assert skill.notes == ()


def test_empty_name_selects_the_default_skill(library: Path) -> None:
    written(library, "default")
    assert SkillLibrary([library], "default").load("").name == "default"


def test_first_folder_with_the_skill_is_used(library: Path, tmp_path: Path) -> None:
    preferred = tmp_path / "own"
    written(library)
    written(preferred, SKILL_md=head("name: tea\ndescription: mine"))
    assert SkillLibrary([tmp_path / "not there", preferred, library], "x").load("tea").description == "mine"


@pytest.mark.parametrize(
    "name", ["coffee", "Tea", "../tea", "tea/", "/etc", "..", ".", "tea\n", "茶", "a" * 65, "tea\0", "te a", "-" * 500]
)
def test_an_unknown_name_is_not_found(library: Path, name: str) -> None:
    written(library)
    written(library.parent, "outside")
    with pytest.raises(SkillNotFoundError) as caught:
        load(library, name=name)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    ("skill", "reason"),
    [
        ("# Tea\n", "the first line is not"),
        ("", "the first line is not"),
        ("---\nname: tea\n", "not closed"),
        (head("name: tea\ndescription: d\nwhat is this"), "not `key: value`"),
        (head("name: tea\nname: tea\ndescription: d"), "duplicate key `name`"),
        (head("name: coffee\ndescription: d"), "must equal the name of the folder"),
        (head("description: d"), "must equal the name of the folder"),
        (head("name: tea"), "`description`"),
        (head("name: tea\ndescription:"), "`description`"),
        (head("name: tea\ndescription: " + "d" * 1_025), "`description`"),
        (head("name: tea\ndescription: &a d"), "must be a string"),
        (head("name: tea\ndescription: *a"), "must be a string"),
        (head("name: tea\ndescription: !!python/object:os.system d"), "must be a string"),
        (head("name: tea\ndescription: [a, b]"), "must be a string"),
        (head("name: tea\ndescription:\n  - a\n  - b"), "must be a string"),
        (head("name: tea\ndescription: {a: b}"), "must be a string"),
        (head('name: tea\ndescription: "open'), "unclosed quote"),
        (head("name: tea\ndescription: 'open"), "unclosed quote"),
        (head("name: tea\ndescription: d", body=""), "no text after"),
    ],
)
def test_invalid_skill_file_is_rejected(library: Path, skill: str, reason: str) -> None:
    written(library, SKILL_md=skill)
    refused(library, reason)


@pytest.mark.parametrize(
    "lines",
    [
        "name: tea\ndescription: Finds tea: and more.",
        'name: "tea"\ndescription: "Finds tea: and more."',
        "name: 'tea'\ndescription: 'Finds tea: and more.'  ",
        "description: >-\n  Finds tea:\n  and more.\nname: tea",
        "description: |\n  Finds tea: and more.\nname: tea",
        "# a comment\nname: tea  # its name\n\ndescription:\n  Finds tea:\n  and more.",
        "name: tea\r\ndescription: Finds tea: and more.\r",
    ],
)
def test_description_is_parsed_in_every_common_yaml_form(library: Path, lines: str) -> None:
    written(library, SKILL_md=head(lines))
    assert SkillLibrary([library], "x").load("tea").description == "Finds tea: and more."


def test_nested_quotes_are_parsed(library: Path) -> None:
    written(library, SKILL_md=head("name: tea\ndescription: 'It''s \"tea\"'"))
    assert SkillLibrary([library], "x").load("tea").description == 'It\'s "tea"'


def test_unsupported_skill_fields_are_ignored_with_a_note(library: Path) -> None:
    skill = head(
        "name: tea\ndescription: d\nallowed-tools: [Bash]\nmetadata:\n  budget: 99\nlicense: &x MIT",
        body="## Defaults\n- page_size: 500",
    )
    written(library, SKILL_md=skill)
    notes = SkillLibrary([library], "x").load("tea").notes
    assert [note.split("`")[1] for note in notes] == ["allowed-tools", "metadata", "license", "SKILL.md"]
    assert all("ignored" in note for note in notes[:3])
    assert "unknown default" in notes[3]


@pytest.mark.parametrize("file", ["SKILL_md", "references__a_md", "scripts__a_md"])
@pytest.mark.parametrize(("content", "reason"), [(b"x" * (64 * 1024 + 1), "larger than 64 KB"), (b"\xff\xfe", "UTF-8")])
def test_oversized_or_binary_file_is_rejected(library: Path, file: str, content: bytes, reason: str) -> None:
    written(library, **{file: content})
    refused(library, reason)


def test_a_file_at_the_size_limit_is_loaded(library: Path) -> None:
    written(library, references__a_md=b"x" * (64 * 1024))
    load(library)


def test_the_number_of_references_is_limited(library: Path) -> None:
    written(library, **{f"references__{number}_md": "x" for number in range(16)})
    load(library)
    written(library, scripts__one_too_many_md="x")
    refused(library, "expected at most 16 reference files, got 17")


def test_only_text_files_are_read_and_nothing_is_executed(library: Path) -> None:
    trap = "#!/bin/sh\ntouch ran\n"
    folder = written(library, scripts__run="", references__image="", references__deep__a_md="x", references__a_md="a")
    (folder / "scripts" / "run.sh").write_text(trap)
    (folder / "scripts" / "run.py").write_text("raise SystemExit")
    (folder / "scripts" / "run.sh").chmod(0o755)
    (folder / "references" / ".hidden.md").write_text("x")
    assert SkillLibrary([library], "x").load("tea").references == {"references/a.md": "a"}


@pytest.mark.parametrize("name", ["SKILL.md", "references/a.md", "scripts/a.md"])
def test_link_outside_the_folder_is_rejected(library: Path, name: str) -> None:
    folder = written(library)
    outside = library.parent / "outside.md"
    outside.write_text(head("name: tea\ndescription: d", "secret"))
    link = folder / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    refused(library, f"`{name}` is a symbolic link to a location outside the skill folder")


@pytest.mark.parametrize("name", ["references", "scripts"])
def test_folder_link_outside_the_skill_is_rejected(library: Path, name: str) -> None:
    folder = written(library)
    outside = library.parent / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("secret")
    (folder / name).symlink_to(outside)
    refused(library, f"`{name}` is a symbolic link to a location outside the skill folder")


def test_skill_link_outside_the_skills_folder_is_rejected(library: Path, tmp_path: Path) -> None:
    (library / "tea").symlink_to(written(tmp_path / "elsewhere"))
    refused(library, "outside the skills folder")


def test_a_link_inside_the_folder_is_followed(library: Path) -> None:
    folder = written(library, data__a_md="a")
    (folder / "references").mkdir()
    (folder / "references" / "a.md").symlink_to(folder / "data" / "a.md")
    assert SkillLibrary([library], "x").load("tea").references == {"references/a.md": "a"}


def test_skills_folder_can_be_a_symbolic_link(library: Path, tmp_path: Path) -> None:
    written(library)
    (tmp_path / "linked").symlink_to(library)
    load(tmp_path / "linked")


@pytest.mark.parametrize("name", ["SKILL.md", "references/a.md"])
def test_path_that_is_not_a_file_is_rejected(library: Path, name: str) -> None:
    file = written(library) / name
    file.unlink(missing_ok=True)
    file.parent.mkdir(exist_ok=True)
    os.mkfifo(file)
    refused(library, f"`{name}` is missing or not a regular file")


def test_folder_without_a_skill_is_rejected(library: Path) -> None:
    (library / "tea").mkdir()
    refused(library, "`SKILL.md` is missing or not a regular file")


def test_broken_and_circular_links_are_rejected(library: Path) -> None:
    folder = written(library, references__b_md="b")
    (folder / "references" / "a.md").symlink_to(folder / "nowhere.md")
    refused(library, "`references/a.md` is missing or not a regular file")
    (folder / "references" / "a.md").unlink()
    (folder / "references" / "a.md").symlink_to(folder / "references" / "a.md")
    refused(library, "circular symbolic link|is missing or not a regular file")


def test_edited_skill_is_reloaded(library: Path) -> None:
    skills = SkillLibrary([library], "x")
    folder = written(library, references__a_md="old")
    first = skills.load("tea")
    assert skills.load("tea") is first
    (folder / "references" / "a.md").write_text("newer")
    assert skills.load("tea").references == {"references/a.md": "newer"}
    (folder / "references" / "b.md").write_text("b")
    assert "references/b.md" in skills.load("tea").references
    (folder / "SKILL.md").write_text(head("name: tea\ndescription: edited"))
    assert skills.load("tea").description == "edited"


def test_invalid_edit_is_rejected_until_it_is_corrected(library: Path) -> None:
    skills = SkillLibrary([library], "x")
    folder = written(library)
    skills.load("tea")
    (folder / "SKILL.md").write_text("spoilt")
    with pytest.raises(SkillInvalidError):
        skills.load("tea")
    written(library)
    assert skills.load("tea").description == DESCRIPTION


def test_deleted_skill_is_not_found(library: Path) -> None:
    skills = SkillLibrary([library], "x")
    folder = written(library)
    skills.load("tea")
    (folder / "SKILL.md").unlink()
    folder.rmdir()
    with pytest.raises(SkillNotFoundError):
        skills.load("tea")
