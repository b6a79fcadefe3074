"""Words of a question that say how it is asked rather than what about."""

from __future__ import annotations

import re
from typing import Final

_ASKING_CHINESE: Final = """
请问 你还记不记得 还记不记得 你还记得 你记得 记不记得 还记得 记得 我是不是 是不是 有没有 能不能
可不可以 是否 我们上次 上次 之前 以前 最近 现在 后来 到底 究竟 大概 一下 告诉我 帮我 想知道
什么时候 什么样 什么 怎么样 怎样 怎么 为什么 为何 哪一天 哪一个 哪一年 哪一次 哪里 哪儿
哪天 哪个 哪些 哪位 哪年 几点 几岁 多少 多久 多大 如何 谁 说过 提到过 提到 聊到 聊过
曾经 上面的内容 按我喜欢 那个 这个 那些 这些 我们 咱们 你们 我 你 的 了 吗 呢 吧 啊
是 或者 以及
"""

ASKING_CHINESE: Final = re.compile("|".join(_ASKING_CHINESE.split()))
"""Chinese words of asking; a longer one stands before what it begins with."""

_MEANT: Final = "想问|想说|想知道|想搞清楚|想弄清楚|想了解|想要了解"

REDIRECTS: Final = re.compile(
    rf"(?:我|其实|真正|实际|那个)+[^，,。！？!?：:；;]{{0,10}}(?:{_MEANT}|问题)[^，,。！？!?：:；;]{{0,6}}?(?:是这个|是)?[，,：:]"
    rf"|我?(?:真正|其实|实际上?|就是)(?:{_MEANT})的?(?:问题)?是?"
    r"|问题是[，,：:]?|我想问[，,：:]|诶?[，,]?等等[，,]"
    r"|\bactually\b,?|\bmy question is\b:?|\bwhat I (?:really )?(?:want|meant) to (?:know|ask) is\b:?",
    re.IGNORECASE,
)
"""Leads from chatter to the real question."""

ASKS: Final = re.compile(
    r"[?？]|吗|呢$|什么|怎么|怎样|哪|谁|几[点岁个次]|多少|多久|多大|是不是|有没有|是否|如何|为何|"
    r"^\s*(?:who|what|when|where|why|how|which|whose|do|does|did|is|are|was|were|am|can|could|would|will|has|have|had|"
    r"should|tell|summari[sz]e|remind|总结|按)\b",
    re.IGNORECASE,
)
"""Stands in sentences that ask."""
