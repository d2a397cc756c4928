"""Where sentences end."""

from __future__ import annotations

from tests.case_tables import walk_cases
from zoea.text.sentences import split_sentences


@walk_cases(
    ("text", "sentences"),
    [
        ("", []),
        ("It rains. it pours! Really?  Yes.", ["It rains.", "it pours!", "Really?", "Yes."]),
        ("Wir treffen uns am 3. Juni. Bis dann.", ["Wir treffen uns am 3. Juni.", "Bis dann."]),
        ("Ask Dr. Kern, z. B. on Monday. He knows.", ["Ask Dr. Kern, z. B. on Monday.", "He knows."]),
        ("It is No. 12. Take it.", ["It is No. 12. Take it."]),
        ("No. I will not.", ["No.", "I will not."]),
        ("See node.js and v1.2.3, e.g. here. Done.", ["See node.js and v1.2.3, e.g. here.", "Done."]),
        ("The port is 8443. Keep it.", ["The port is 8443.", "Keep it."]),
        ("我们用它。不行！好吗？“是。”他说", ["我们用它。", "不行！", "好吗？", "“是。”", "他说"]),
        ("one\ntwo\n\nthree", ["one", "two", "three"]),
    ],
)
def test_a_text_is_split_where_sentences_end(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences
