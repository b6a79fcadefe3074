"""Arguments, signatures and fields may not name a user, whatever the words around them say. Prose is not judged."""

from __future__ import annotations

import pytest

from nomemory.recall.authoring.calls import user_ids
from nomemory.recall.authoring.document import read_document

HARMLESS = [
    "参数里永远不出现 `user_id`",
    "用户已由服务器绑定。不要询问、不要猜测是哪位用户，参数里永远不出现 `user_id`。",
    "`args` 里没有 `user_id`；时间用 ISO 8601。*Never a `user_id`; times are ISO 8601.*",
    "Never pass user_id, since the host has bound it.",
    "Do not ask for, guess or pass a `user_id`.",
    "- user_id 永远不出现在参数里",
    "`user_id` is never an argument.",
    "The tools have no `user_id` parameter.",
    "不含 `user_id`，只有 `message_id, ts, role, content`",
    "No user_id, tenant_id or role may be smuggled in.",
    "关于 user_id：服务器已经绑定，不要传。",
    "Ask the user for the message_id.",
    "最重要的 user 偏好 (user)",
    'The user said: "my user id is 7".',
    "the user's messages (role: user)",
    "`lexical_search(query_text, filter?, page_size?, cursor?)`",
    "`messages_list(since?, until?, role?, page_size?, cursor?)`",
]

NAMING = [
    "`semantic_search(user_id, query_text)`",
    "Never write `semantic_search(user_id, query_text)`.",
    "semantic_search(user_id: str, query_text)",
    "lexical_search (userId, query_text)",
    "调用 lexical_search（user_id，query_text）即可",
    "| user_id | string | 用户标识 |",
    "| `user_id` | never allowed |",
    "| `messages_list` | `user_id, since?, until?` |",
    "- `user_id`: the user's id",
    "- `user_id`：永远不传",
    "- user_id (string): whose messages",
    "字段：`message_id, ts, role, content, user_id`",
    "`args.user_id` 必填",
    """`args["user_id"] = "u1"`""",
    """Pass `user_id="lin"` to every tool.""",
    """`{"user_id": "u1"}`""",
    "```yaml\nuser_id: lin\n```",
    "```\n/v1/messages?user_id=lin\n```",
    "def recall(user_id, question):",
    "messages_list(tenant, since)",
    "neighbors(message_id, x_user_id)",
    "- tenant_id: 租户",
]


def findings(text: str) -> int:
    return len(list(user_ids(read_document("SKILL.md", text))))


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_may_speak_of_a_user_id(text: str) -> None:
    assert findings(text) == 0


@pytest.mark.parametrize("text", NAMING)
def test_every_form_of_naming_a_user_is_found(text: str) -> None:
    assert findings(text) == 1
