"""Write the translation that the lesson `translator` shows: `python docs/lesson_translation.py` after `make demo`.

The translator is the one that the demo trains on number names, as the commands of the lesson do.
"""

import json
from pathlib import Path

import regard.lessons
from regard.tracing.focus import focus_on
from regard.translation.translator import Translator
from regard.views.page.data import page_data

TRANSLATOR = Path(__file__).parent.parent / "demo" / "translator"
NUMBER = "forty-two thousand and seven"

FILE = Path(regard.lessons.__file__).parent / "texts" / "translation.json"


def main() -> None:
    """Translate the number, and store the page's data of the layer by which the translator aligns."""
    (translation,) = Translator.load(TRANSLATOR).translate([NUMBER])
    alignment = translation.page_record()
    alignment["candidates"] = alignment["candidates"][:1]
    trace, layer = translation.page_trace, alignment["rule"]["layer"]
    data = page_data(trace, focus_on(trace, head=f"cross L{layer}average"), alignment, max_values=0)
    kind = data["kinds"]["cross"]
    kind["layers"] = [one for one in kind["layers"] if one["layer"] == layer]
    data |= {"model": "translator", "kinds": {"cross": kind}, "movement": None}
    written = json.dumps(kind)
    data["blocks"] = {name: block for name, block in data["blocks"].items() if f'"{name}"' in written}
    FILE.write_text(json.dumps(data, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
