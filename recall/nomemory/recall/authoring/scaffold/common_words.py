"""Words that stand in anybody's messages, whatever they are about."""

from __future__ import annotations

from typing import Final

from nomemory.text.stop_words import COMPARISON_STOP_WORDS
from nomemory.text.terms import word_set

COMMON_CHINESE: Final = word_set(
    """
    我们 你们 他们 她们 咱们 自己 大家 别人 有人 今天 明天 昨天 后天 前天 今年 去年 明年 早上 晚上 中午 下午 上午 周末
    星期 这周 下周 上周 这个 那个 这些 那些 这样 那样 这么 那么 这里 那里 这边 那边 这次 上次 下次 什么 怎么 怎样
    为什 多少 哪里 哪个 时候 时间 现在 刚才 刚刚 之前 之后 以前 以后 后来 然后 已经 一直 一下 一些 一点 一个 一样
    一起 一定 一般 有点 有些 有时 没有 没什 不是 不会 不要 不能 不想 不用 不过 不太 不了 不到 不行 不知 可以 可能 可是
    应该 需要 必须 知道 觉得 感觉 认为 希望 喜欢 想要 打算 准备 开始 结束 继续 因为 所以 但是 如果 虽然 而且 或者 还是
    还有 就是 只是 也是 都是 其实 真的 确实 当然 特别 非常 比较 挺好 很多 好像 好的 好吧 谢谢 你好 再见 请问 帮我
    告诉 提醒 记得 忘了 看看 看到 听到 说过 说了 问题 事情 东西 地方 办法 情况 意思 样子 里面 外面 上面 下面 前面
    后面 旁边 最近 最后 最好 第一 每天 每周 每次 大概 左右 起来 出来 回来 过来 出去 进去 下来 上去 了吗 是不 有没
    """
)

EDGES: Final = frozenset(
    "的了着过吗呢吧啊呀嘛么啦哦哈嗯地得我你您他她它们这那哪是在有和与跟及或也都就还又很太最更把被给让向从到对于个些"
    "不没别要会能可想去来说看做用再先才只每各一二三四五六七八九十两几多少上下里前后时候天年月日号点分次第为以而且但因所"
)
"""A term neither begins nor ends with one of these."""

COMMON_ENGLISH: Final = COMPARISON_STOP_WORDS | word_set(
    """
    good great nice bad better best well sure okay yes yeah hello hey thanks thank sorry hope need needs needed use
    used using day days today tomorrow yesterday week weeks weekend month months year years time times morning
    afternoon evening night tonight monday tuesday wednesday thursday friday saturday sunday january february march
    april june july august september october november december hour hours minute minutes first second next new old
    big small little long short right left back around away home place people person man woman guy someone somebody
    everyone everybody anyone help work works working worked try tried trying start started starting stop look looks
    looking looked find found feel feels feeling felt give gave given take took taken put keep kept let see saw seen
    hear heard ask asked call called show showed told mean means meant seem seems maybe probably later early late
    soon always never often sometimes usually again though almost enough quite pretty bit lots every several
    different same kind sort part end two three four five six seven eight nine ten hundred since without within
    however because ever else nothing full gets last leave done gone half hard easy able
    """
)
