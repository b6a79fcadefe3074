"""A chat assistant with memory, explained in docs/tutorial.md. Usage: python assistant.py USER_ID."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

import openai

from nomemory.client import PROMPT_MESSAGES, Client, as_prompt
from nomemory.v1 import recall_service_pb2 as pb
from nomemory.v1.message_pb2 import ROLE_USER

INSTRUCTIONS = "You are a kind and brief assistant. Use the memory below if it is relevant.\n\n"
UNKNOWN = "I do not know. Your earlier messages do not answer this."
NO_ANSWER = {pb.VERDICT_INSUFFICIENT, pb.VERDICT_PENDING}


def answer(question: str, response: pb.RecallResponse) -> str:
    """Answer with a chat model, or, without an API key, quote the most relevant message of the user."""
    if "OPENAI_API_KEY" not in os.environ:
        quotes = [item.message.content for item in response.evidence if item.message.role == ROLE_USER]
        return f"You said: {quotes[0]}" if quotes and response.verdict not in NO_ANSWER else UNKNOWN
    instructions = INSTRUCTIONS + as_prompt(response, question=question)
    reply = openai.OpenAI().chat.completions.create(
        model=os.environ.get("ASSISTANT_MODEL", "gpt-4o-mini"),
        messages=[
            {"role": "system", "content": instructions},
            {"role": "user", "content": question},
        ],
    )
    return reply.choices[0].message.content or ""


def chat(client: Client, user: str, lines: Iterable[str]) -> Iterator[str]:
    """Answer each line from memory, and store the line and the reply."""
    token = ""
    for line in lines:
        response = client.recall(line, user_id=user, at_least=token, evidence_messages=PROMPT_MESSAGES)
        reply = answer(line, response)
        turns = [{"role": "user", "content": line}, {"role": "assistant", "content": reply}]
        token = client.add(user, turns, conversation_id="tutorial").write_token
        yield reply


if __name__ == "__main__":
    with Client(os.environ.get("NOMEMORY_TARGET", "127.0.0.1:7700")) as memory:
        for reply in chat(memory, sys.argv[1], filter(None, map(str.strip, sys.stdin))):
            print(reply, flush=True)  # noqa: T201 - the output of the chat
