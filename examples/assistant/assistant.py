"""A chat assistant with a memory. docs/tutorial.md goes through it; `python assistant.py ann` talks to ann."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

import openai

from nomemory.client import PROMPT_MESSAGES, Client, as_prompt
from nomemory.v1 import recall_service_pb2 as pb
from nomemory.v1.message_pb2 import ROLE_USER

INSTRUCTIONS = "You are a kind and brief assistant. Use the memory below where it helps.\n\n"
UNKNOWN = "Nothing that was said before answers this."
NOTHING = {pb.VERDICT_INSUFFICIENT, pb.VERDICT_PENDING}


def answer(question: str, found: pb.RecallResponse) -> str:
    """Let a chat model answer; without a key, quote the likeliest thing that you said."""
    if "OPENAI_API_KEY" not in os.environ:
        said = [item.message.content for item in found.evidence if item.message.role == ROLE_USER]
        return f"You said: {said[0]}" if said and found.verdict not in NOTHING else UNKNOWN
    instructions = INSTRUCTIONS + as_prompt(found, question=question)
    reply = openai.OpenAI().chat.completions.create(
        model=os.environ.get("ASSISTANT_MODEL", "gpt-4o-mini"),
        messages=[
            {"role": "system", "content": instructions},
            {"role": "user", "content": question},
        ],
    )
    return reply.choices[0].message.content or ""


def chat(client: Client, user: str, lines: Iterable[str]) -> Iterator[str]:
    """Answer each line with what is remembered, and remember both."""
    token = ""
    for line in lines:
        found = client.recall(line, user_id=user, at_least=token, evidence_messages=PROMPT_MESSAGES)
        reply = answer(line, found)
        said = [{"role": "user", "content": line}, {"role": "assistant", "content": reply}]
        token = client.add(user, said, conversation_id="tutorial").write_token
        yield reply


if __name__ == "__main__":
    with Client(os.environ.get("NOMEMORY_TARGET", "127.0.0.1:7700")) as memory:
        for reply in chat(memory, sys.argv[1], filter(None, map(str.strip, sys.stdin))):
            print(reply, flush=True)  # noqa: T201 - it talks to its user
