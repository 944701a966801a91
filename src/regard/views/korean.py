"""Texts of views in Korean, for readers who choose this language: worked examples, and what a terminal shows."""

import re

KOREAN = {
    "Self-attention: three tokens look at each other": "셀프 어텐션: 서로를 보는 토큰 세 개",
    "Small whole numbers that are easily checked by hand: three embeddings of width 4, parameters of 4 × 3.": (
        "손으로 쉽게 검산할 수 있는 작은 정수입니다. 4차원 임베딩 세 개와 4 × 3 파라미터를 씁니다."
    ),
    "Causal self-attention: the same three tokens, and nobody looks ahead": (
        "인과 셀프 어텐션: 같은 토큰 세 개, 아무도 뒤의 토큰을 보지 않습니다"
    ),
    "The numbers of the example self-attention.": "예제 self-attention의 숫자입니다.",
    "One word's query, key and value: four words, twelve vectors": (
        "단어 하나의 쿼리, 키, 값: 단어 네 개, 벡터 열두 개"
    ),
    "The embedding [1, 1, 1, 1] and the score 1.5 are given; the parameters are chosen so that I scores itself at "
    "exactly 1.5.": (
        "임베딩 [1, 1, 1, 1]과 점수 1.5는 주어진 것이고, 파라미터는 I의 자기 자신에 대한 점수가 정확히 1.5가 되도록 "
        "골랐습니다."
    ),
    "Cross-attention: one decoder state over four encoder states": (
        "크로스 어텐션: 인코더 상태 네 개를 보는 디코더 상태 하나"
    ),
    "A recurrent translator's step (Luong, Pham & Manning 2015): the decoder state is the query, encoder states are "
    "keys and values.": (
        "순환 신경망 번역기의 한 단계입니다(Luong, Pham & Manning 2015). 디코더 상태가 쿼리이고, 인코더 상태가 키와 "
        "값입니다."
    ),
    "Multi-head attention: 4 × 8 split over four heads": "멀티 헤드 어텐션: 4 × 8을 헤드 네 개로 나누기",
    "Small whole numbers: four tokens of width 8, four heads of width 2, contexts side by side and times W_O.": (
        "작은 정수입니다. 8차원 토큰 네 개와 2차원 헤드 네 개가 있고, 컨텍스트를 이어 붙여 W_O를 곱합니다."
    ),
    "Two tokens, eight heads: 2 × 24 side by side, times W_O": (
        "토큰 두 개, 헤드 여덟 개: 이어 붙인 2 × 24에 W_O를 곱하기"
    ),
    "Small whole numbers: two tokens of width 3, eight heads with values of width 3, and 24 × 3 output parameters.": (
        "작은 정수입니다. 3차원 토큰 두 개, 값이 3차원인 헤드 여덟 개, 24 × 3 출력 파라미터를 씁니다."
    ),
    "one head of a model, recomputed in float64 from the head's inputs": (
        "모델의 헤드 하나를 그 입력으로부터 float64로 다시 계산했습니다"
    ),
    "Q is the queries times the matrix W of the general score (Luong et al. 2015, section 3.1).": (
        "Q는 쿼리에 general 점수(Luong 등 2015, 3.1절)의 행렬 W를 곱한 것입니다."
    ),
    "A query is a token just read; its weights help to predict the token after it.": (
        "쿼리는 디코더가 방금 읽은 토큰이며, 그 가중치는 다음 토큰을 예측하는 데 쓰입니다."
    ),
    "Given": "주어진 값",
    "Attention": "어텐션",
    "Queries, keys and values": "쿼리, 키, 값",
    "The heads together": "헤드 합치기",
    "Output": "출력",
    "sum": "합",
    "heads in which {} looks most sharply at another word": "“{}” 토큰이 다른 단어를 가장 많이 보는 헤드",
    "every head: the largest weight that {} gives to another word": (
        "모든 헤드: “{}” 토큰이 다른 단어에 주는 가장 큰 가중치"
    ),
    "before": "끊기 전",
    "cut": "끊음",
    "Attention shows where a head reads; by itself it does not explain the answer.": (
        "어텐션은 헤드가 어디를 읽는지 보여 줄 뿐, 그것만으로 모델의 답을 설명하지는 못합니다."
    ),
}
"""English texts without numbers or names, each with its Korean translation. {} in both is where a name is put."""

PATTERNS = {
    r"(.+) · encoder (L\d+H\d+)": "{} · 인코더 {}",
    r"(.+) · decoder (L\d+H\d+)": "{} · 디코더 {}",
    r"(.+) · cross (L\d+H\d+)": "{} · 크로스 어텐션 {}",
    r"([\d,]+) tokens? × ([\d,]+) tokens?": "토큰 {}개 × 토큰 {}개",
    r"([\d,]+) tokens? × ([\d,]+)": "토큰 {}개 × {}",
    r"softmax\((.+) and a sink\), row by row": "softmax({}, 싱크 포함), 행마다",
    r"softmax\((.+)\), row by row": "softmax({}), 행마다",
    r"all on the largest of (.+) and a sink, shared by equal ones": (
        "{}와 싱크 가운데 가장 큰 것에 모두, 같으면 똑같이 나눔"
    ),
    r"all on the largest of (.+), shared by equal ones": "{}에서 가장 큰 것에 모두, 같으면 똑같이 나눔",
    r"(.+), not scaled": "{}, 스케일링 없음",
    r"(.+), −∞ where not allowed": "{}, 볼 수 없는 곳은 −∞",
    r"(.+) / (.+), the temperature": "{} / 온도 {}",
    r"columns? ([\d–]+) of (.+)": "{1}의 {0}열",
    r"(weights.*) of (.+) · rows of (.+)": "“{1}”의 {0} · {2}의 행",
    r"(\d+) layers? × (\d+) heads? · (\d+) tokens?": "{}층 × 헤드 {}개 · 토큰 {}개",
    r"(.+) looks, in (.+), at": "{1}에서 “{0}” 토큰이 보는 토큰",
    r"without (.+) → (.+)": "{} → {} 없이",
    "  ".join(5 * [r"(\S+) to (\S+)"]): "  ".join(5 * ["{} {}까지"]),
    r"Fitted to (\d+) columns: .+": (
        "{}열에 맞추느라 일부 행이나 열, 소수 자릿수를 뺐습니다. 창을 넓히면 더 보이고, regard explain … --json FILE은 "
        "모든 숫자를 저장합니다."
    ),
    r"Queries, keys and values: (\d+) tokens? × 3 roles = (\d+) vectors?": (
        "쿼리, 키, 값: 토큰 {}개 × 역할 3개 = 벡터 {}개"
    ),
    r"Head (\d+) of (\d+)": "헤드 {} / {}",
    r"(.+) may attend to no key: its weights and its context are 0\.": (
        "“{}” 토큰은 볼 수 있는 키가 없어 가중치와 컨텍스트가 0입니다."
    ),
    r"A sink of (.+) takes part in each softmax and has no value\.": (
        "모든 소프트맥스에 값이 없는 싱크({})가 들어갑니다."
    ),
    r"K and V come from different inputs here, so the numbers start .+": (
        "K와 V의 입력이 서로 달라, 어텐션이 받은 Q, K, V에서 계산을 시작합니다."
    ),
    r"(.+) (?:is not a plain product|are not plain products) x W here .+": (
        "{}에는 x W를 곱한 다음 위치나 정규화가 더해져서, 어텐션이 받은 Q, K, V에서 계산을 시작합니다."
    ),
    r"(.+) knows (\d+) of these (\d+) tokens; .+": (
        "이 글의 토큰 {2}개 가운데 {0} 모델의 어휘로 읽은 것은 {1}개뿐입니다. 나머지는 모르는 단어이거나 자모, "
        "바이트로 쪼개져서, 어텐션을 보아도 알 수 있는 것이 거의 없습니다. 이 글의 언어로 학습한 모델을 고르세요."
    ),
}
"""A regular expression for each English text with numbers or names, and the text in Korean. The groups of the regular
expression fill the `{}`. The ends of some texts are written `.+`; the whole texts are in by_hand/model_head.py and
tracing/tokens/readable_tokens.py."""


def korean(text: str) -> str:
    """Return a text of a view in Korean; a text that regard has not written itself is returned unchanged.

    >>> korean("x2 may attend to no key: its weights and its context are 0.")
    '“x2” 토큰은 볼 수 있는 키가 없어 가중치와 컨텍스트가 0입니다.'
    """
    for pattern, translation in PATTERNS.items():
        if match := re.fullmatch(pattern, text):
            return translation.format(*match.groups())
    return KOREAN.get(text, text)
