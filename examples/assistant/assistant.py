"""A chat assistant with memory, explained in docs/tutorial.md. Usage: python assistant.py USER_ID."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

try:
    from nomemory.client import PROMPT_MESSAGES, Client, NoMemoryError, as_prompt
    from nomemory.v1 import recall_service_pb2 as pb
except ModuleNotFoundError as error:
    sys.exit(f"The package {error.name} is missing. Use the Python environment in which NoMemory is installed.")

INSTRUCTIONS = "You are a kind and brief assistant. Use the memory below if it is relevant.\n\n"


def quote(line: str, response: pb.RecallResponse) -> str:
    """Answer a question with quotes from the user's messages."""
    if not line.endswith(("?", "？")):
        return "Noted."
    view = response.memory_view
    statements = [*view.constraints, *view.preferences, *view.profile]
    quotes = [statement.citations[0].quote for statement in statements if not statement.superseded_by]
    return f"You said: {' … '.join(quotes)}" if quotes else "I do not know. Your messages do not answer this."


def ask_model(line: str, response: pb.RecallResponse) -> str:
    """Answer with a chat model that reads the evidence."""
    try:
        import openai  # noqa: PLC0415 - only this function requires the package
    except ModuleNotFoundError:
        sys.exit("OPENAI_API_KEY is set, but the package openai is missing. Run: pip install openai")
    instructions = INSTRUCTIONS + as_prompt(response, question=line)
    reply = openai.OpenAI().chat.completions.create(
        model=os.environ.get("ASSISTANT_MODEL", "gpt-4o-mini"),
        messages=[{"role": "system", "content": instructions}, {"role": "user", "content": line}],
    )
    return reply.choices[0].message.content or ""


def chat(client: Client, user: str, lines: Iterable[str]) -> Iterator[str]:
    """Answer each line from memory, and store the line and the reply."""
    answer = ask_model if "OPENAI_API_KEY" in os.environ else quote
    token = ""
    for line in lines:
        response = client.recall(line, user_id=user, at_least=token, evidence_messages=PROMPT_MESSAGES)
        reply = answer(line, response)
        turns = [{"role": "user", "content": line}, {"role": "assistant", "content": reply}]
        token = client.add(user, turns, conversation_id="tutorial").write_token
        yield reply


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and the user id
        sys.exit("usage: python assistant.py USER_ID")
    try:
        with Client(os.environ.get("NOMEMORY_TARGET", "127.0.0.1:7700")) as memory:
            for reply in chat(memory, sys.argv[1], filter(None, map(str.strip, sys.stdin))):
                print(reply, flush=True)  # noqa: T201 - the output of the chat
    except NoMemoryError as error:
        sys.exit(f"{error}\nIf no server is running, start one with: nomemory serve")
