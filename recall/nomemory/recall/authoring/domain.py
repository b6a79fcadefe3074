"""Kinds of business that a sentence may name, and their words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from nomemory.text.language import Language


@dataclass(frozen=True, slots=True)
class Words:
    """Words that mean the same, Chinese and English; in a lexicon the first of the skill's language is canonical."""

    chinese: tuple[str, ...]
    english: tuple[str, ...]

    def ordered(self, language: Language) -> tuple[str, ...]:
        """Return them with a language's first."""
        return self.chinese + self.english if language is Language.CHINESE else self.english + self.chinese


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of business.

    Attributes:
        slug: what it is called in a skill's name.
        named: matches sentences that name it.
        lexicon: what means the same there.
        told: by intent, words that stand in what people say there, Chinese and English.
    """

    slug: str
    named: re.Pattern[str]
    lexicon: tuple[Words, ...]
    told: dict[str, Words]


def _words(text: str) -> Words:
    chinese, _, english = text.partition(" = ")
    return Words(tuple(chinese.split("、")), tuple(english.split(", ")))


def _domain(slug: str, named: str, lexicon: str, **told: str) -> Domain:
    """Make a domain; a line of `lexicon` is `词、词 = word, word`."""
    lines = filter(None, map(str.strip, lexicon.splitlines()))
    entries = tuple(map(_words, lines))
    return Domain(slug, re.compile(named, re.IGNORECASE), entries, {key: _words(value) for key, value in told.items()})


DOMAINS: Final = (
    _domain(
        "crm-sales",
        r"\bcrm\b|销售|售前|商机|\bsales\b|\bsalesperson\b|\baccount manager\b",
        """
        客户、顾客、甲方、买家 = customer, client, account, buyer
        报价、价格、单价、预算 = quote, price, pricing, budget
        合同、协议、签约 = contract, agreement, deal
        决策人、拍板、负责人 = decision maker, approver, champion
        竞品、竞争对手、友商 = competitor, alternative
        折扣、优惠、让利 = discount, concession
        交付、上线、实施 = delivery, rollout, implementation
        """,
        preferences="喜欢、希望、沟通方式、更愿意 = prefers, wants, rather, by email",
        profile="公司、行业、规模、预算、决策人 = company, industry, team size, budget, decision maker",
        constraints="必须、不能、预算、账期、合规、截止 = must, cannot, budget, payment terms, compliance, deadline",
        schedule="拜访、跟进、回访、签约、截止 = call, follow up, demo, renewal, deadline",
    ),
    _domain(
        "companion",
        r"陪伴|陪聊|情感|树洞|心情|聊天伴侣|虚拟(?:朋友|恋人)|\bcompanions?\b|\bfriend(?:ship)?\b|\bemotional\b|\bmood\b",
        """
        心情、情绪、感受 = mood, feeling, emotion
        难过、伤心、低落、委屈 = sad, down, upset, hurt
        开心、高兴、快乐 = happy, glad, cheerful
        焦虑、紧张、压力、担心 = anxious, nervous, stressed, worried
        家人、爸妈、父母、家里 = family, parents, mom, dad
        朋友、闺蜜、兄弟、同学 = friend, buddy, classmate
        宠物、猫、狗 = pet, cat, dog
        """,
        preferences="喜欢、讨厌、爱听、爱看、习惯 = love, hate, enjoy, favorite",
        profile="家人、朋友、生日、养了、住在 = family, friend, birthday, pet, live in",
        constraints="别提、不要再、害怕、受不了 = never mention, please don't, afraid of, cannot stand",
        schedule="生日、纪念日、约了、考试、面试 = birthday, anniversary, date, exam, interview",
    ),
    _domain(
        "support",
        r"客服|售后|工单|\b(?:customer|technical|user) (?:support|service)\b|\bhelp ?desk\b|\btickets?\b",
        """
        故障、报错、异常、坏了 = fault, error, broken, failure
        退款、退货、退钱 = refund, return, money back
        订单、单号 = order, order number
        工单、投诉 = ticket, complaint
        升级、更新 = upgrade, update
        """,
        profile="型号、版本、套餐、购买 = model, version, plan, purchased",
        constraints="退款、保修、过期、不能 = refund, warranty, expired, cannot",
        schedule="上门、寄出、到货、回访 = visit, shipped, arrives, call back",
    ),
    _domain(
        "health",
        r"健康|医疗|问诊|患者|慢病|用药|护理|营养|\bhealth|\bmedical\b|\bpatients?\b|\bclinic\b|\bnutrition",
        """
        药、用药、吃药、剂量 = medicine, medication, dose
        过敏、不耐受 = allergy, allergic, intolerance
        症状、不舒服、疼 = symptom, pain, unwell
        血压、高压、低压 = blood pressure
        血糖、糖尿病 = blood sugar, diabetes
        检查、化验、体检 = test, scan, check-up
        """,
        preferences="忌口、爱吃、作息 = diet, eats, sleeps",
        profile="病史、家族史、手术、年龄 = history, surgery, diagnosed, age",
        constraints="过敏、禁忌、不能吃、医嘱 = allergic, must not, avoid, doctor said",
        schedule="复诊、检查、吃药、预约 = appointment, follow-up, refill, test",
    ),
    _domain(
        "tutoring",
        r"教育|辅导|老师|学生|学习|备考|家教|课程|\btutor|\bteach|\bstudents?\b|\blearn|\beducation|\bcourses?\b",
        """
        作业、练习、习题 = homework, exercise, assignment
        考试、测验、期末 = exam, test, quiz, final
        成绩、分数 = grade, score, marks
        薄弱、不会、搞不懂 = weak, struggle, confused
        课、上课、课程 = lesson, class, course
        """,
        profile="年级、学校、专业、目标 = grade, school, major, goal",
        constraints="截止、必须、不超过 = due, must, at most",
        schedule="考试、上课、交作业、截止 = exam, class, due, deadline",
    ),
    _domain(
        "travel",
        r"旅行|旅游|行程|出行|酒店|机票|\btravel|\btrips?\b|\bitinerar|\bhotels?\b|\bflights?\b",
        """
        航班、机票、飞机 = flight, plane, ticket
        酒店、住宿、民宿 = hotel, stay, hostel
        签证、护照 = visa, passport
        景点、打卡、玩 = sights, attraction, visit
        行李、箱子 = luggage, bag
        """,
        preferences="靠窗、喜欢、不喜欢、口味 = window seat, prefer, avoid, taste",
        profile="同行、孩子、老人、常住 = travelling with, kids, parents, home airport",
        constraints="预算、签证、不能、晕车 = budget, visa, cannot, motion sick",
        schedule="出发、返程、入住、航班 = departs, returns, check in, flight",
    ),
    _domain(
        "dining",
        r"餐厅|饮食|点餐|外卖|菜谱|美食|厨|\brestaurants?\b|\brecipes?\b|\bmeals?\b|\bcook|\bdining\b|\bfood\b",
        """
        辣、麻辣、微辣 = spicy, hot, chilli
        素食、吃素 = vegetarian, vegan
        过敏、忌口、不耐受 = allergic, allergy, intolerant
        甜、甜食、甜点 = sweet, dessert
        海鲜、鱼、虾 = seafood, fish, shrimp
        """,
        preferences="爱吃、不吃、口味、清淡 = likes to eat, never eats, taste, mild",
        constraints="过敏、忌口、不能吃 = allergic, must not eat, avoid",
        schedule="订位、聚餐、几点 = reservation, dinner, table for",
    ),
    _domain(
        "fitness",
        r"健身|运动|跑步|减肥|训练|\bfitness\b|\bgym\b|\bworkouts?\b|\btraining\b|\brunn(?:ing|er)",
        """
        跑步、慢跑、长跑 = running, run, jog
        力量、举铁、撸铁 = strength, lifting, weights
        体重、减重、减脂 = weight, lose weight, fat loss
        受伤、疼、拉伤 = injury, pain, strain
        """,
        profile="身高、体重、目标、伤病 = height, weight, goal, injury",
        constraints="不能、膝盖、医生、伤 = cannot, knee, doctor, injury",
        schedule="训练日、比赛、休息 = training day, race, rest",
    ),
    _domain(
        "engineering",
        r"编程|代码|研发|开发者|程序|运维|\bcod(?:e|ing)\b|\bengineer|\bdevelopers?\b|\bprogramm|\bsoftware\b|\bdevops\b",
        """
        报错、异常、崩溃 = error, exception, crash
        部署、上线、发布 = deploy, release, ship
        仓库、代码库 = repository, repo, codebase
        测试、用例 = test, test case
        需求、功能 = requirement, feature
        """,
        preferences="风格、格式、喜欢用、不用 = style, format, prefer, avoid",
        profile="语言、框架、版本、环境 = language, framework, version, environment",
        constraints="必须、不能、兼容、性能 = must, cannot, compatible, performance",
        schedule="上线、发布、截止、评审 = release, deadline, review, sprint",
    ),
    _domain(
        "finance",
        r"理财|投资|基金|股票|财务|记账|保险|\binvest|\bfinanc|\bstocks?\b|\bportfolio\b|\binsurance\b|\baccounting\b",
        """
        收益、回报、利润 = return, yield, profit
        风险、亏损、回撤 = risk, loss, drawdown
        基金、股票、债券 = fund, stock, bond
        预算、开支、花销 = budget, spending, expense
        贷款、房贷、利率 = loan, mortgage, rate
        """,
        preferences="风险偏好、稳健、激进 = risk appetite, conservative, aggressive",
        profile="收入、资产、负债、持有 = income, assets, debt, holds",
        constraints="不碰、上限、不能亏 = never buy, limit, cannot lose",
        schedule="到期、定投、还款 = matures, due, repayment",
    ),
    _domain(
        "recruiting",
        r"招聘|面试|候选人|人力|\brecruit|\bhiring\b|\bcandidates?\b|\bhr\b",
        """
        候选人、应聘者、人选 = candidate, applicant
        简历、履历 = resume, cv
        薪资、工资、待遇 = salary, pay, compensation
        面试、复试 = interview, onsite
        入职、到岗 = start date, onboarding
        """,
        preferences="希望、更愿意、远程 = prefers, would rather, remote",
        profile="经验、学历、现任、技能 = experience, degree, current role, skills",
        constraints="期望薪资、不能、签证、竞业 = expected salary, cannot, visa, non-compete",
        schedule="面试、入职、回复 = interview, start date, reply",
    ),
    _domain(
        "legal",
        r"法律|律师|诉讼|案件|\blegal\b|\blaw(?:yer)?s?\b|\battorney|\blitigation\b",
        """
        合同、协议、条款 = contract, agreement, clause
        诉讼、起诉、官司 = lawsuit, litigation, claim
        证据、材料 = evidence, exhibit
        和解、调解 = settlement, mediation
        """,
        profile="当事人、对方、案由 = party, opponent, cause",
        constraints="时效、不得、必须、截止 = limitation, must not, must, deadline",
        schedule="开庭、截止、提交 = hearing, deadline, filing",
    ),
)

GENERAL: Final = tuple(
    map(
        _words,
        (
            "会议、开会、约谈 = meeting, appointment",
            "截止、期限、最后期限 = deadline, due date",
            "计划、打算、安排 = plan, going to, schedule",
            "预算、花费、价格 = budget, cost, price",
        ),
    )
)
"""Words that mean the same in every business."""

GENERAL_TOLD: Final = {
    "preferences": _words("喜欢、不喜欢、习惯、更愿意 = like, prefer, hate, favorite"),
    "profile": _words("我是、工作、住在、负责 = I am, work, live, responsible for"),
    "constraints": _words("必须、不能、过敏、不超过 = must, cannot, allergic, at most"),
    "schedule": _words("截止、会议、预约、提醒 = deadline, meeting, appointment, remind"),
}


def domains_of(scenario: str) -> tuple[Domain, ...]:
    """Return the kinds of business that a sentence names, at most two, the first named first."""
    found = ((match.start(), domain) for domain in DOMAINS if (match := domain.named.search(scenario)))
    return tuple(domain for _, domain in sorted(found, key=lambda one: one[0])[:2])
