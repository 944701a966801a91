"""Remarks for the user of a subcommand, such as "3 blank lines left out.", printed on the error stream."""

import os
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from regard.visible_text import escape_controls

if TYPE_CHECKING:
    from regard.tracing.trace import Trace
    from regard.translation.translation import Translation

NOT_TRANSLATED = "not translated: a clause is too long; divide it, or translate only its beginning with --truncate"


def print_remark(remark: str) -> None:
    if remark:
        print(f"regard: {escape_controls(remark)}", file=sys.stderr)


def remark_on_file_name(text: str) -> None:
    if os.path.isfile(text):  # noqa: PTH113 (Path(text).is_file() raises OSError for a long text)
        print_remark(
            f"the text is {text}, which is the name of a file; to read the file instead, give - < {shlex.quote(text)}"
        )


def remark_on_texts(*traces: "Trace") -> None:
    """Print a remark for each model that reads most of its text as unknown words, single Korean letters or bytes."""
    from regard.tracing.tokens.readable_tokens import unfamiliar_text_note

    for remark in dict.fromkeys(unfamiliar_text_note(trace.model, trace.tokens) for trace in traces):
        print_remark(remark)


def remark_on_layers_not_shown(full_trace: "Trace", shown_trace: "Trace") -> None:
    """Print a remark if some layers are not shown; they divide the picture into other patches than the shown layers."""
    from regard.tracing.patterns_by_layer import layers_label

    if not_shown := [layer for layer in full_trace.encoder if layer not in shown_trace.encoder]:
        print_remark(
            f"{layers_label(list(shown_trace.encoder))} of {len(full_trace.encoder)} are shown: the others divide the "
            f"picture into other patches; see them with --layer {not_shown[0]}."
        )


def remark_on_silence(full_trace: "Trace", shown_trace: "Trace") -> None:
    """Print a remark if the silence after a recording is shown as one token; the model reads the silence, too."""
    from regard.tracing.tokens.places import Frame

    frames = [token.place for token in full_trace.source if isinstance(token.place, Frame)]
    recorded_frames = [token.place for token in shown_trace.source if isinstance(token.place, Frame)]
    if len(recorded_frames) < len(frames):  # the token of the silence is no frame
        print_remark(
            f"the model reads {frames[-1].end_seconds:.2f} s; the silence after the recording, from "
            f"{recorded_frames[-1].end_seconds:.2f} s on, is shown as one token; see its frames with --padding."
        )


def remarks_on_translation(translation: "Translation") -> Iterator[str]:
    from regard.translation.pieces import UNKNOWN

    if translation.unknown:
        yield f"the translator does not know {', '.join(map(repr, dict.fromkeys(translation.unknown)))}"
    if translation.missing:
        yield f"the translation lacks {', '.join(translation.missing)}"
    if translation.untranslated:
        yield NOT_TRANSLATED
    if translation.parts:
        yield f"long: translated in {len(translation.parts)} parts"
    if translation.left_out:
        n_read = translation.n_source_pieces
        yield f"too long: the first {n_read:,} pieces were read and the last {translation.left_out:,} were not"
    if translation.cut:
        yield f"the translation was ended at {len(translation.target_ids):,} pieces, the most that the search allows"
    if UNKNOWN in translation.target_pieces:
        yield f"{UNKNOWN} stands for an unknown piece"


def remark_on_fonts(text: str) -> None:
    from regard.views.picture.fonts import fonts_for

    print_remark(fonts_for(text).advice)


def letters_of(*traces: "Trace") -> str:
    """Return all text in a picture of the traces, for which a font is looked up."""
    return "".join(trace.model + "".join(token.text for token in (*trace.source, *trace.target)) for trace in traces)
