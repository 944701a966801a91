"""A page says that the model hardly knows the text that it shows."""

from playwright.sync_api import expect

import regard

KOREAN = "뱀은 독이 있어서 위험하다"


def test_a_text_that_the_model_hardly_knows(opened, minilm, snake_page, tmp_path):
    page = opened(regard.trace(minilm.model, KOREAN, tokenizer=minilm.tokenizer).html(tmp_path / "korean.html"))
    expect(page.locator("[data-view=sentence] .note")).to_have_text(
        "MiniLM knows 0 of the 13 tokens of this text; the others are unknown words, single jamo (parts of "
        "Korean syllables) or bytes, so attention says little about the text. Choose a model for its language."
    )
    page = opened(snake_page)
    expect(page.locator("[data-view=sentence] .note")).to_have_count(0)
