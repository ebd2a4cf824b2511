"""English-Chinese word list and short sentences, written for the demo model.

Every English entry and every Chinese entry occurs once, so both directions of
the translation have exactly one right answer (checked by `check()`).
"""

from __future__ import annotations

_NOUNS = """
apple 苹果|banana 香蕉|orange 橙子|pear 梨|peach 桃子|grape 葡萄|lemon 柠檬|strawberry 草莓|watermelon 西瓜|tomato 西红柿
potato 土豆|carrot 胡萝卜|onion 洋葱|cabbage 白菜|mushroom 蘑菇|garlic 大蒜|rice 米饭|bread 面包|noodles 面条|egg 鸡蛋
meat 肉|fish 鱼|chicken 鸡|beef 牛肉|soup 汤|sugar 糖|salt 盐|oil 油|milk 牛奶|water 水
tea 茶|coffee 咖啡|juice 果汁|beer 啤酒|wine 葡萄酒|cake 蛋糕|chocolate 巧克力|butter 黄油|cheese 奶酪|breakfast 早饭
lunch 午饭|dinner 晚饭|cat 猫|dog 狗|horse 马|cow 牛|sheep 羊|pig 猪|bird 鸟|duck 鸭子
rabbit 兔子|mouse 老鼠|tiger 老虎|lion 狮子|elephant 大象|monkey 猴子|bear 熊|snake 蛇|frog 青蛙|bee 蜜蜂
butterfly 蝴蝶|ant 蚂蚁|wolf 狼|fox 狐狸|panda 熊猫|turtle 乌龟|tree 树|flower 花|grass 草|leaf 叶子
forest 森林|mountain 山|river 河|sea 海|lake 湖|island 岛|beach 海滩|sky 天空|sun 太阳|moon 月亮
star 星星|cloud 云|rain 雨|snow 雪|wind 风|fire 火|ice 冰|stone 石头|sand 沙子|earth 地球
house 房子|room 房间|door 门|window 窗户|wall 墙|roof 屋顶|garden 花园|kitchen 厨房|table 桌子|chair 椅子
bed 床|lamp 灯|key 钥匙|clock 钟|mirror 镜子|cup 杯子|plate 盘子|bowl 碗|spoon 勺子|knife 刀
fork 叉子|bottle 瓶子|box 盒子|bag 包|book 书|pen 钢笔|pencil 铅笔|paper 纸|letter 信|newspaper 报纸
map 地图|picture 图片|music 音乐|song 歌|film 电影|game 游戏|ball 球|computer 电脑|telephone 电话|television 电视
camera 照相机|car 汽车|bus 公共汽车|train 火车|plane 飞机|ship 船|bicycle 自行车|road 路|bridge 桥|station 车站
airport 机场|city 城市|village 村庄|country 国家|school 学校|hospital 医院|bank 银行|shop 商店|market 市场|restaurant 饭馆
hotel 旅馆|library 图书馆|museum 博物馆|park 公园|street 街道|office 办公室|factory 工厂|teacher 老师|student 学生|doctor 医生
nurse 护士|driver 司机|worker 工人|farmer 农民|cook 厨师|friend 朋友|father 父亲|mother 母亲|brother 兄弟|sister 姐妹
son 儿子|daughter 女儿|child 孩子|man 男人|woman 女人|boy 男孩|girl 女孩|family 家庭|king 国王|queen 女王
head 头|face 脸|eye 眼睛|ear 耳朵|nose 鼻子|mouth 嘴|tooth 牙齿|hair 头发|hand 手|finger 手指
arm 胳膊|leg 腿|foot 脚|heart 心|blood 血|shirt 衬衫|coat 外套|trousers 裤子|shoe 鞋|hat 帽子
glasses 眼镜|ring 戒指|umbrella 雨伞|money 钱|gift 礼物|question 问题|answer 答案|word 单词|language 语言|name 名字
"""

_ADJECTIVES = """
red 红|blue 蓝|green 绿|yellow 黄|black 黑|white 白|big 大|small 小|long 长|short 短
new 新|old 旧|hot 热|cold 冷|good 好|bad 坏|fast 快|slow 慢|expensive 贵|cheap 便宜
beautiful 美丽|clean 干净|dirty 脏|heavy 重|light 轻|strong 强|weak 弱|empty 空|full 满|soft 软
"""

_OTHERS = """
day 天|night 夜晚|morning 早上|afternoon 下午|evening 傍晚|week 星期|month 月份|year 年|today 今天|tomorrow 明天
yesterday 昨天|now 现在|spring 春天|summer 夏天|autumn 秋天|winter 冬天|north 北|south 南|east 东|west 西
one 一|two 二|three 三|four 四|five 五|six 六|seven 七|eight 八|nine 九|ten 十
hundred 百|thousand 千|eat 吃|drink 喝|sleep 睡觉|walk 走|run 跑|read 读|write 写|speak 说
listen 听|look 看|sing 唱|dance 跳舞|swim 游泳|buy 买|sell 卖|open 打开|close 关闭|think 想
love 爱|know 知道|help 帮助|work 工作|study 学习|play 玩|wait 等|laugh 笑|cry 哭|fly 飞
we 我们|they 他们|here 这里|there 那里|who 谁|what 什么|why 为什么|when 什么时候|how 怎么|yes 是
"""

SENTENCES: list[tuple[str, str]] = [
    ("Hello.", "你好。"),
    ("Good morning.", "早上好。"),
    ("Good evening.", "晚上好。"),
    ("Good night.", "晚安。"),
    ("Goodbye.", "再见。"),
    ("Thank you.", "谢谢。"),
    ("You are welcome.", "不客气。"),
    ("Excuse me.", "打扰一下。"),
    ("I am sorry.", "对不起。"),
    ("How are you?", "你好吗？"),
    ("I am fine.", "我很好。"),
    ("What is your name?", "你叫什么名字？"),
    ("Nice to meet you.", "很高兴认识你。"),
    ("Where are you from?", "你是哪里人？"),
    ("I do not understand.", "我不明白。"),
    ("I understand.", "我明白了。"),
    ("Please speak slowly.", "请说慢一点。"),
    ("How much is this?", "这个多少钱？"),
    ("It is too expensive.", "太贵了。"),
    ("I am hungry.", "我饿了。"),
    ("I am thirsty.", "我渴了。"),
    ("I am tired.", "我累了。"),
    ("What time is it?", "现在几点？"),
    ("See you tomorrow.", "明天见。"),
    ("Happy birthday.", "生日快乐。"),
    ("Happy New Year.", "新年快乐。"),
    ("Have a good trip.", "一路平安。"),
    ("I love you.", "我爱你。"),
    ("I miss you.", "我想你。"),
    ("Please sit down.", "请坐。"),
    ("Come in.", "请进。"),
    ("Wait a moment.", "等一下。"),
    ("Let us go.", "我们走吧。"),
    ("Be careful.", "小心。"),
    ("No problem.", "没问题。"),
    ("I do not know.", "我不知道。"),
    ("That is right.", "对了。"),
    ("It is raining.", "下雨了。"),
    ("It is very cold today.", "今天很冷。"),
    ("It is very hot today.", "今天很热。"),
    ("I can speak Chinese.", "我会说中文。"),
    ("He is my friend.", "他是我的朋友。"),
    ("She is a teacher.", "她是老师。"),
    ("We are students.", "我们是学生。"),
    ("I live in Beijing.", "我住在北京。"),
    ("Can you help me?", "你能帮我吗？"),
    ("I am at home.", "我在家。"),
    ("The train is late.", "火车晚点了。"),
]

# {n} is a noun, {a} an adjective; the article "the" is always written.
PATTERNS: list[tuple[str, str]] = [
    ("I see the {n}.", "我看见{n}。"),
    ("I want the {n}.", "我想要{n}。"),
    ("Where is the {n}?", "{n}在哪里？"),
    ("The {n} is {a}.", "{n}是{a}的。"),
    ("This is the {n}.", "这是{n}。"),
    ("The {n} is here.", "{n}在这里。"),
]


def _pairs(block: str) -> list[tuple[str, str]]:
    items = block.replace("\n", "|").split("|")
    return [(e, c) for e, c in (i.split(" ") for i in items if i)]


NOUNS = _pairs(_NOUNS)
PATTERN_NOUNS = [p for p in NOUNS if p[0] not in ("noodles", "glasses", "trousers")]
ADJECTIVES = _pairs(_ADJECTIVES)
WORDS = NOUNS + ADJECTIVES + _pairs(_OTHERS)


def check() -> None:
    """Each side of the word list and of the sentences is free of repeats."""
    for side in (0, 1):
        every = [p[side] for p in WORDS] + [p[side] for p in SENTENCES]
        repeated = {w for w in every if every.count(w) > 1}
        assert not repeated, repeated
    assert len(WORDS) >= 250 and len(SENTENCES) >= 40


if __name__ == "__main__":
    check()
    print(len(WORDS), "words,", len(SENTENCES), "sentences,", len(PATTERNS), "patterns")
