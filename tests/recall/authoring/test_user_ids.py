"""Prose may forbid naming a user; arguments, signatures and fields may not name one."""

from __future__ import annotations

import pytest

from nomemory.recall.authoring.lint.document import read_document
from nomemory.recall.authoring.lint.user_ids import user_ids

HARMLESS = [
    "参数里永远不出现 `user_id`",
    "用户已由服务器绑定。不要询问、不要猜测是哪位用户，参数里永远不出现 `user_id`。",
    "`args` 里没有 `user_id`；时间用 ISO 8601。*Never a `user_id`; times are ISO 8601.*",
    "Never pass user_id, since the host has bound it.",
    "Never pass `user_id`: the server binds it.",
    "Do not ask for, guess or pass a `user_id`.",
    "不要写 `semantic_search(user_id, query_text)`，用户已绑定。",
    "Never write `semantic_search(user_id, query_text)`.",
    "`semantic_search(user_id, query_text)` is wrong.",
    "- `user_id`：永远不传",
    "- `user_id`: never; the host binds it",
    "- user_id 永远不出现在参数里",
    "| `user_id` | 禁止出现 |",
    "| `user_id` | never allowed |",
    "`user_id` is never an argument.",
    "The tools have no `user_id` parameter.",
    "不含 `user_id`，只有 `message_id, ts, role, content`",
    "字段：`message_id, ts, role, content`，不含 `user_id`",
    "Fields: message_id, ts, role, content. Never user_id.",
    "No user_id, tenant_id or role may be smuggled in.",
    "关于 user_id：服务器已经绑定，不要传。",
    "user_id 由服务器绑定，与你无关",
    "Ask the user for the message_id.",
    "最重要的 user 偏好 (user)",
    "如果没有结果，也不要传 user_id=…",
    'The user said: "my user id is 7".',
    "the user's messages (role: user)",
    "`lexical_search(query_text, filter?, page_size?, cursor?)`",
    "`messages_list(since?, until?, role?, page_size?, cursor?)`",
    "Without a user_id: the host has bound one.",
]

NAMING = [
    "`semantic_search(user_id, query_text)`",
    "semantic_search(user_id: str, query_text)",
    "lexical_search (userId, query_text)",
    "调用 lexical_search（user_id，query_text）即可",
    "| user_id | string | 用户标识 |",
    "| `user_id` | 必填 | 不能为空 |",
    "| `user_id` | required, must not be empty |",
    "| `messages_list` | `user_id, since?, until?` |",
    "- `user_id`: the user's id",
    "- user_id (string): whose messages",
    "- `user_id`：用户标识，不能为空",
    "字段：`message_id, ts, role, content, user_id`",
    "证据字段：user_id、message_id、ts",
    "evidence: message_id, user_id, ts, role, content",
    "`args.user_id` 必填",
    'args["user_id"] = "u1"',
    "user_id: lin",
    'Pass user_id="lin" to every tool.',
    "不要忘记传 `user_id`：必填",
    "Never forget to pass user_id=…",
    "If nothing is found, call `semantic_search(user_id, query_text)` again.",
    "没有命中时，调用 `semantic_search(user_id, query_text)`",
    "If there is no hit call semantic_search(user_id, query_text)",
    '{"user_id": "u1"}',
    '  "user_id": "lin",',
    "def recall(user_id, question):",
    "messages_list(tenant, since)",
    "neighbors(message_id, x_user_id)",
    "uid: 42",
    "- tenant_id: 租户",
    "/v1/messages?user_id=lin",
    "`user_id`（必填）：每次都要带",
]

IN_EVIDENCE = ["和 `user_id`", "plus the user_id", "也带上 user_id"]
NOT_IN_EVIDENCE = [
    "不含 `user_id`",
    "no user_id",
    "`user_id` 不是字段",
    "证据不带 user_id。",
    "It has no field `user_id`.",
]


def findings(text: str, evidence: range = range(0)) -> int:
    return len(list(user_ids(read_document("SKILL.md", text), evidence)))


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_that_forbids_a_user_id_is_accepted(text: str) -> None:
    assert findings(text) == 0


@pytest.mark.parametrize("text", NAMING)
def test_every_form_of_naming_a_user_is_found(text: str) -> None:
    assert findings(text) == 1


@pytest.mark.parametrize("text", IN_EVIDENCE)
def test_no_mention_in_the_evidence_contract_is_harmless(text: str) -> None:
    assert findings(text, range(1, 2)) == 1
    assert findings(text) == 0


@pytest.mark.parametrize("text", NOT_IN_EVIDENCE)
def test_the_evidence_contract_may_forbid_it(text: str) -> None:
    assert findings(text, range(1, 2)) == 0
