"""Tests for the messages that hooks store and add to prompts, with events and transcripts of the agents."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from local_memory.local import LocalHome, claude_line, event, written
from server.fleet import until

HALF = b'{"hook_event_name": "UserPromptSubmit", "prompt": "half a pair \\ud800"}'
TOOL_USE = [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "cat port"}}]
TOOL_RESULT = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "7710", "is_error": False}]
TURN = (
    claude_line(1, "user", "Which port did we choose for the gateway?"),
    claude_line(2, "assistant", TOOL_USE),
    claude_line(3, "user", TOOL_RESULT),
    claude_line(4, "assistant", [{"type": "text", "text": "The gateway is on port 7710."}]),
)
SESSION = [
    ("1", "Which port did we choose for the gateway?"),
    ("Bash", "7710"),
    ("2", "The gateway is on port 7710."),
]


RULES = (
    ("user", "Use pnpm, never npm, in this repo."),
    ("assistant", "Understood, I removed the lock file."),
    ("user", "Always run make fmt before every commit."),
    ("user", "What does the printer speak, ESC/POS?"),
    ("user", "界面上的文字都放在 locales 目录里，不要写死在组件里。"),
)


def remember(at: LocalHome, *turns: tuple[str, str], session: str = "s1", project: str = "harbour") -> list[str]:
    """Store messages of a session, wait until they are indexed, and return their ids."""
    messages = [
        {"role": role, "content": text, "conversation_id": session, "metadata": {"project": project}}
        for role, text in turns
    ]
    with at.calls() as client:
        written = client.add(at.user, messages)
        client.hybrid_search(at.user, "rule", at_least=written.write_token)
        return [result.message_id for result in written.results]


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


def stored(at: LocalHome, *expected: tuple[str, str]) -> bool:
    return until(lambda: at.list_turns() == list(expected))


def test_turn_is_stored_unchanged_and_later_import_adds_nothing(served: LocalHome, transcript: Path) -> None:
    written(transcript, *TURN)
    assert served.hook("claude-code", event("Stop", transcript)) == ""
    assert stored(served, *SESSION), served.list_turns()
    with served.calls() as client:
        (first, *_) = list(client.iter_messages(served.user))[::-1]
    assert (first.conversation_id, dict(first.metadata)) == ("s1", {"agent": "claude-code", "project": "harbour"})
    assert first.ts.ToJsonString() == "2026-03-02T09:00:01Z"
    again = served.run("import", "--target", "local", "--user", served.user, str(transcript))
    assert (again.returncode, "3 unchanged" in again.stdout) == (0, True), again.stdout + again.stderr


def test_only_new_lines_are_stored_and_partial_lines_wait(served: LocalHome, transcript: Path) -> None:
    last = json.dumps(TURN[3])
    written(transcript, *TURN[:3])
    transcript.write_text(transcript.read_text() + last[:40])
    served.hook("claude-code", event("Stop", transcript))
    assert stored(served, *SESSION[:2])
    transcript.write_text(transcript.read_text() + last[40:] + "\n")
    served.hook("claude-code", event("SessionEnd", transcript))
    assert stored(served, *SESSION)


def test_invalid_transcript_lines_are_skipped(served: LocalHome, transcript: Path) -> None:
    odd = ("", "not json", "[]", "null", '{"type": "user"}', '{"type": "assistant", "message": 3}', "\x00", '{"a":' * 9)
    written(transcript, *odd, *TURN[:1], claude_line(2, "user", "half a pair: \ud800"), *odd, *TURN[1:])
    served.hook("claude-code", event("Stop", transcript))
    assert stored(served, *SESSION)
    log = served.home.log.read_text()
    assert "was not stored" in log
    assert "half a pair" not in log


def test_codex_transcript_is_read_incrementally_without_injected_messages(served: LocalHome, transcript: Path) -> None:
    def line(number: int, **payload: object) -> dict[str, object]:
        at = f"2026-03-02T09:00:0{number}.000Z"
        kind = "session_meta" if "cwd" in payload else "response_item"
        return {"timestamp": at, "ordinal": number, "type": kind, "payload": payload}

    rules = {"type": "input_text", "text": "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>tabs</INSTRUCTIONS>"}
    environment = {"type": "input_text", "text": "<environment_context>\n<cwd>/work</cwd>\n</environment_context>"}
    question = {"type": "input_text", "text": "Which port?"}
    answer = {"type": "output_text", "text": "7710."}
    written(
        transcript,
        line(0, id="c1", cwd="/work/harbour"),
        line(1, type="message", role="developer", content=[question]),
        line(2, type="message", role="user", id="m1", content=[rules, environment]),
        line(3, type="message", role="user", id="m2", content=[environment, question]),
    )
    served.hook("codex", event("SessionStart", transcript, "c1"))
    assert stored(served, ("1", "Which port?"))
    written(
        transcript,
        line(4, type="function_call", name="exec_command", call_id="call_1", arguments="{}"),
        line(5, type="function_call_output", id="o1", call_id="call_1", output="port=7710"),
        line(6, type="message", role="assistant", id="m3", content=[answer]),
    )
    served.hook("codex", event("Stop", transcript, "c1"))
    assert stored(served, ("1", "Which port?"), ("exec_command", "port=7710"), ("2", "7710."))
    again = served.invoke("import", "--target", "local", "--user", served.user, str(transcript))
    assert "3 unchanged" in again.stdout, again.stdout


def test_cursor_events_are_stored_as_messages(served: LocalHome) -> None:
    common = {"conversation_id": "k1", "generation_id": "g1", "workspace_roots": ["/work/harbour"]}
    for name, more in (
        ("beforeSubmitPrompt", {"prompt": "Which port?", "attachments": []}),
        ("afterShellExecution", {"command": "cat port", "output": "7710", "duration": 5}),
        ("afterAgentResponse", {"text": "7710."}),
        ("stop", {"status": "completed"}),
    ):
        assert served.hook("cursor", {**common, "hook_event_name": name, **more}) == ""
    assert stored(served, ("1", "Which port?"), ("shell", "7710"), ("2", "7710."))


def test_the_prompt_hook_adds_relevant_messages_with_their_ids(served: LocalHome, transcript: Path) -> None:
    other = transcript.with_name("s2.jsonl")
    written(transcript, *TURN)
    written(other, claude_line(9, "user", "The gateway of this one is on port 9000.", "s2", cwd="/work/lighthouse"))
    for path in (transcript, other):
        served.hook("claude-code", event("Stop", path))
    assert until(lambda: len(served.list_turns()) == 4)
    with served.calls() as client:
        ids = {item.content: item.message_id for item in client.iter_messages(served.user)}

    def send_prompt(prompt: str, session: str = "s3") -> str:
        return served.hook("claude-code", event("UserPromptSubmit", transcript, session, prompt=prompt))

    assert until(lambda: "7710" in send_prompt("Which port is the gateway on?"))
    hook_output = json.loads(send_prompt("Which port is the gateway on?"))["hookSpecificOutput"]
    assert hook_output["hookEventName"] == "UserPromptSubmit"
    assert ids["The gateway is on port 7710."] in hook_output["additionalContext"]
    assert "9000" not in hook_output["additionalContext"]  # messages of another project
    assert send_prompt("Which port is the gateway on?", "s1") == ""  # the model has read its own session
    assert send_prompt("Translate this poem about glaciers into Welsh, please.") == ""


def test_instruction_gets_relevant_user_messages(served: LocalHome, transcript: Path) -> None:
    remember(served, *RULES, ("tool", "Done in 1.2s"), ("assistant", "Done."))

    def send_prompt(prompt: str, session: str = "s3", agent: str = "claude-code") -> str:
        return served.hook(agent, event("UserPromptSubmit", transcript, session, prompt=prompt))

    for agent in ("claude-code", "codex"):
        hook_output = json.loads(send_prompt("install left-pad with npm", agent=agent))["hookSpecificOutput"]
        context = hook_output["additionalContext"]
        assert "Use pnpm, never npm" in context
        assert "Done" not in context
    assert "make fmt" in send_prompt("commit these changes")
    assert send_prompt("commit these changes", "s1") == ""  # the current session
    for prompt in ("ok", "thanks", "what is 2+2", "write a haiku"):
        assert send_prompt(prompt) == ""


def test_new_session_gets_the_active_rules(served: LocalHome, transcript: Path) -> None:
    ids = remember(served, *RULES, ("user", "Use tabs in every file, never spaces."), ("user", "Use Bun, never Deno."))
    remember(served, ("user", "Use spaces in every file, never tabs."), session="s2")
    remember(served, ("user", "Use Java, never Kotlin."), project="lighthouse")
    with served.calls() as client:
        token = client.add(served.user, [{"role": "user", "content": "Forget it.", "retracts": [ids[-1]]}]).write_token
        client.hybrid_search(served.user, "Bun", at_least=token)
    for agent in ("claude-code", "codex"):
        output = json.loads(served.hook(agent, event("SessionStart", transcript, "s3", source="startup")))
        assert output["hookSpecificOutput"]["hookEventName"] == "SessionStart"
        context = output["hookSpecificOutput"]["additionalContext"]
        for rule in ("Use pnpm, never npm", "make fmt", "不要写死", "Use spaces in every file"):
            assert rule in context
        for other in ("ESC/POS", "Use tabs in every file", "Bun", "Java"):
            assert other not in context
    start = {"hook_event_name": "sessionStart", "conversation_id": "k1", "workspace_roots": ["/work/harbour"]}
    assert "Use pnpm, never npm" in json.loads(served.hook("cursor", start))["additional_context"]
    assert served.hook("claude-code", event("SessionStart", transcript, "s3", cwd="/work/elsewhere")) == ""


def test_rules_are_added_to_the_first_prompt_if_no_server_ran_at_session_start(at: LocalHome, transcript: Path) -> None:
    at = dataclasses.replace(at, embedder="auto")
    with at.served():
        remember(at, *RULES)
    at.stop()
    assert at.hook("claude-code", event("SessionStart", transcript, "s3")) == ""
    assert until(lambda: at.server() is not None)
    assert until(lambda: not list(at.home.queued_events.iterdir()))
    prompt = event("UserPromptSubmit", transcript, "s3", prompt="ok")
    assert until(lambda: "Use pnpm, never npm" in at.hook("claude-code", prompt))
    assert at.hook("claude-code", prompt) == ""


def test_hooks_never_show_messages_of_another_user(served: LocalHome, transcript: Path) -> None:
    written(transcript, *TURN)
    bob = f"bob-{served.user}"
    served.hook("claude-code", event("Stop", transcript), user=bob)
    assert until(lambda: len(served.list_turns(bob)) == 3)
    prompt = event("UserPromptSubmit", transcript, "s3", prompt="Which port is the gateway on?")
    assert until(lambda: "7710" in served.hook("claude-code", prompt, user=bob))
    assert served.hook("claude-code", prompt) == ""


def test_hook_without_a_server_queues_events_silently(at: LocalHome, transcript: Path) -> None:
    at.home.create()
    written(transcript, *TURN)
    assert at.hook("claude-code", event("UserPromptSubmit", transcript, prompt="Which port?")) == ""
    assert at.hook("cursor", {"hook_event_name": "afterAgentResponse", "text": "Hi.", "conversation_id": "k1"}) == ""
    assert until(lambda: at.server() is not None)
    assert stored(at, *SESSION, ("2", "Hi."))
    assert until(lambda: not list(at.home.queued_events.iterdir()))


def test_unreadable_queued_event_does_not_stop_the_others(at: LocalHome, transcript: Path) -> None:
    at.home.create()
    (at.home.queued_events / "0").mkdir()
    written(transcript, *TURN)
    assert at.hook("claude-code", event("Stop", transcript)) == ""
    assert until(lambda: at.server() is not None)
    assert stored(at, *SESSION)


def test_a_hook_ignores_malformed_input_silently(served: LocalHome) -> None:
    for handed in (b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"prompt": 3}', HALF):
        assert served.hook("claude-code", handed) == "", handed[:80]
    assert served.server() is not None


def test_missing_home_directory_does_not_fail_the_agent(tmp_path: Path) -> None:
    assert LocalHome(tmp_path / "gone").hook("claude-code", event("Stop", tmp_path)) == ""
