"""A small thesaurus of everyday life in Chinese and English: it tells that 饮食 and "vegetarian" are about one thing.

A name of a concept (饮食, diet) asks for all of it; an instance (鱼, vegetarian) belongs to it. Words of English are
stemmed; an underscore joins the words of a phrase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.text.terms import stem

_CONCEPTS: dict[str, tuple[str, str]] = {
    "food": (
        "吃 喝 饮食 食物 口味 忌口 胃口 菜 food foods eat eats ate eating diet dietary drink cuisine",
        (
            "饭 餐 锅 汤 肉 鱼 海鲜 吃素 素食 面 外卖 水果 甜品 零食 咖啡 茶 meal dish cook dinner lunch "
            "breakfast recipe meat fish seafood chicken beef vegetarian vegan bass salmon prawn sardine bread "
            "rice coffee tea"
        ),
    ),
    "spicy": ("辣 麻辣 spicy chilli chili", "红锅 鸳鸯 小米椒 清汤 白锅 peppers"),
    "allergy": ("过敏 忌口 allergic allergy allergies intolerant intolerance avoid", "荨麻疹 hives rash anaphylaxis"),
    "medicine": (
        "药 药物 medicine medication drug",
        "抗生素 青霉素 疫苗 antibiotic penicillin aspirin ibuprofen tablet pill vaccine",
    ),
    "health": (
        "身体 健康 health healthy",
        "体检 看病 医院 医生 复查 住院 生病 ill sick hospital doctor gp diagnosis check-up surgery injury",
    ),
    "teeth": ("牙 牙齿 牙医 dentist dental tooth teeth", "智齿 wisdom_tooth"),
    "bone": ("骨头 骨折 bone fracture", "手腕 胳膊 手臂 腿 脚踝 肋骨 锁骨 wrist ankle arm leg rib collarbone elbow"),
    "work": (
        (
            "工作 上班 职业 公司 单位 岗位 职位 work works worked working job profession occupation career "
            "employer company"
        ),
        (
            "第一天 入职 离职 跳槽 任职 行业 同事 工位 offer 设计师 编辑 工程师 护士 程序员 会计 律师 记者 经理 "
            "colleague office nurse engineer designer editor developer lawyer accountant teacher manager deputy "
            "promoted hired first_day"
        ),
    ),
    "residence": (
        "住 居住 城市 住址 地址 live lives lived living city town address home",
        "搬 搬家 房租 租房 房子 小区 moved rent flat apartment house neighbourhood neighborhood",
    ),
    "moving": ("搬 搬家 搬到 搬去 move moved moving relocate", ""),
    "rent": ("房租 租金 rent", ""),
    "salary": ("工资 薪水 月薪 年薪 salary wage wages", ""),
    "studies": (
        "大学 学校 毕业 专业 念书 读书 university college school degree",
        "高中 中学 硕士 博士 graduated graduate studied master phd",
    ),
    "lesson": ("课 上课 课程 class classes lesson course", "learn learning"),
    "chinese": ("中文 汉语 普通话 chinese mandarin", ""),
    "english": ("英文 英语 english", ""),
    "email": ("邮件 邮箱 email e-mail mail", ""),
    "format": (
        "格式 写法 排版 风格 输出 format layout style",
        "段 分段 要点 列表 罗列 编号 表格 标题 bullet table heading paragraph concise bottom_line",
    ),
    "summary": ("总结 小结 摘要 概括 summarise summarize summary", "结论 conclusion"),
    "schedule": (
        "日程 安排 要办 待办 行程 日历 schedule diary calendar agenda upcoming coming_up forget",
        "预约 会议 开会 截止 约 交稿 appointment meeting deadline due exam interview",
    ),
    "period": ("month week year day date", ""),
    "deadline": ("截止 期限 交稿 交稿日期 deadline due", "交 推到 延期 deliver submit"),
    "promise": ("答应 承诺 保证 提醒 promise promised remind reminder", ""),
    "progress": (
        "进展 进度 阶段 progress status far_along develop developed development",
        "打卡 完成 一半 画完 还差 搞定 done finished half quarters pilot started",
    ),
    "project": ("项目 project", "计划 方案 plan"),
    "book": ("书 绘本 book picture_book", "页 跨页 稿 章 page chapter draft manuscript"),
    "rota": ("排班 值班 轮班 rota roster", "夜班 shift shifts swap off-duty"),
    "night": ("夜 夜班 夜里 night nights", ""),
    "race": ("比赛 马拉松 半马 race marathon", "跑 跑步 half run running 10k 5k"),
    "travel": ("旅行 旅游 出差 travel trip holiday vacation", "机票 出发 签证 飞 酒店 flight flights flying visa"),
    "flight": ("飞 机票 航班 fly flying flight flights", ""),
    "hotel": ("酒店 宾馆 旅馆 hotel", ""),
    "sleep": (
        "作息 睡 睡觉 sleep asleep",
        "早起 夜猫子 熬夜 自然醒 失眠 起床 early_bird morning_person night_owl insomnia",
    ),
    "early": ("早起 自然醒 early_bird morning_person early_riser", ""),
    "late": ("夜猫子 熬夜 night_owl", ""),
    "childhood": ("小时候 童年 childhood child kid", "小学 从小 幼儿园 twelve"),
    "mother": ("妈 妈妈 母亲 mum mom mother", ""),
    "father": ("爸 爸爸 父亲 dad father", ""),
    "brother": ("弟 哥 弟弟 哥哥 brother", ""),
    "sister": ("姐姐 妹妹 sister", ""),
    "daughter": ("女儿 闺女 daughter", ""),
    "son": ("儿子 son", ""),
    "partner": ("老公 老婆 丈夫 妻子 男朋友 女朋友 男友 女友 husband wife partner boyfriend girlfriend", ""),
    "marriage": ("结婚 婚礼 married marry wedding", "单身 离婚 single engaged divorced"),
    "pet": ("宠物 pet", "猫 狗 cat dog puppy kitten rabbit hamster"),
    "cat": ("猫 cat kitten", ""),
    "dog": ("狗 dog puppy", ""),
    "birthday": ("生日 出生 birthday born", ""),
    "car": ("车 开车 car drive", ""),
    "music": ("音乐 乐器 music instrument", "歌 唱歌 合唱 钢琴 吉他 song sing choir guitar piano violin concert"),
    "sport": (
        "运动 健身 锻炼 sport exercise fitness",
        "跑步 游泳 篮球 足球 瑜伽 run swim gym yoga football tennis cycling",
    ),
    "hobby": ("爱好 兴趣 hobby hobbies interests", "画画 摄影 阅读 painting photography reading hiking gardening"),
    "money": ("钱 存款 预算 money savings budget", "便宜 花费 cheap cost"),
    "tax": ("税 个税 报税 tax", ""),
    "key": ("钥匙 key keys", ""),
    "rule": ("规矩 规则 要求 注意 rule rules must requirement allow allowed", "必须 不要 不能 never keep skip"),
}


@dataclass(frozen=True, slots=True)
class Sense:
    """What a word means: concepts that it names, and concepts that it is an instance of."""

    named: frozenset[str] = frozenset()
    within: frozenset[str] = frozenset()

    @property
    def concepts(self) -> frozenset[str]:
        """Both together."""
        return self.named | self.within


NO_SENSE = Sense()


def joined(senses: Iterable[Sense]) -> Sense:
    """Return one sense that has all of them."""
    listed = list(senses)
    return Sense(
        frozenset(chain.from_iterable(one.named for one in listed)),
        frozenset(chain.from_iterable(one.within for one in listed)),
    )


def _phrase(word: str) -> str:
    return word if regex.search(r"\p{Han}", word) else " ".join(stem(part) for part in regex.split(r"[_-]", word))


def _lexicon() -> dict[str, Sense]:
    senses: dict[str, list[Sense]] = {}
    for name, (names, instances) in _CONCEPTS.items():
        for word in names.split():
            senses.setdefault(_phrase(word), []).append(Sense(named=frozenset([name])))
        for word in instances.split():
            senses.setdefault(_phrase(word), []).append(Sense(within=frozenset([name])))
    return {word: joined(found) for word, found in senses.items()}


_LEXICON = _lexicon()
_FIRST = frozenset(word[0] for word in _LEXICON)
LONGEST = max(len(word) for word in _LEXICON if regex.search(r"\p{Han}", word))
"""Characters in the longest Chinese word that has a sense."""


def sense(word: str) -> Sense:
    """Return what a Chinese word, an English stem, or two stems joined by a space mean."""
    return _LEXICON.get(word, NO_SENSE)


def senses_in_han(run: str) -> Iterator[Sense]:
    """Return the senses of all words in a run of Chinese characters, those within others too."""
    for start in range(len(run)):
        if run[start] not in _FIRST:
            continue
        for end in range(start + 1, min(start + LONGEST, len(run)) + 1):
            if found := _LEXICON.get(run[start:end]):
                yield found


def senses_in_stems(stems: list[str]) -> Iterator[Sense]:
    """Return the senses of stems in the order of a text, and of neighbouring pairs of them."""
    for word in stems:
        if found := _LEXICON.get(word):
            yield found
    for left, right in pairwise(stems):
        if found := _LEXICON.get(f"{left} {right}"):
            yield found
