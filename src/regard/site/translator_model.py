"""A translator as files of a site: what `regard export --to onnx` writes, with the layers' vectors as outputs.

encoder.onnx, decoder.onnx     the ONNX graphs; see translator_graphs.py
config.json                    names and axes of the graphs' inputs and outputs; settings of beam search and alignment
source.spm, target.spm         the vocabularies
translator.outputs             the output projections of all layers; see output_projections.py
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from regard.errors import InputError
from regard.export.onnx import LoadedExport, write_graphs
from regard.export.parity import compare as compare_translations
from regard.export.parity import random_lines
from regard.recurrent.model import Recurrent
from regard.site.block_names import HIDDEN, PARTS, WEIGHTS, block_name
from regard.site.check import Difference, compare
from regard.site.exported import Exported
from regard.site.output_projections import write_projections
from regard.site.spm_check import check_vocabulary
from regard.site.translator_graphs import translator_graphs
from regard.site.unicode_tables import unassigned_code_points
from regard.text.placeholders import Placeholders
from regard.tracing.tokens.encoding import check_text
from regard.translation.search.beam import Beam
from regard.translation.search.greedy import Greedy
from regard.translation.search.interface import EXTRA_TOKENS, TOKENS_PER_SOURCE_TOKEN
from regard.translation.translation import Translation
from regard.translation.translator import Translator

FILES = {
    "encoder": "encoder.onnx",
    "decoder": "decoder.onnx",
    "settings": "config.json",
    "source": "source.spm",
    "target": "target.spm",
    "outputs": "translator.outputs",
}
"""The names of the files by their content: "source" and "target" are vocabularies, "outputs" output projections."""

N_TRACED = 5
"""The number of random texts on which the vectors and weights of the exported and the original model are compared."""


def export_translator(translator: Translator, text: str, folder: Path) -> Exported:
    """Write the files of a translator into a folder, and check that they translate and attend as the translator does.

    `text` is the text that the page shows first; if it is too long, its beginning.
    """
    check_text(text)
    for side in ("source", "target"):
        check_vocabulary(FILES[side], getattr(translator, f"{side}_vocabulary").model)
    beam = Beam(n_best=Beam().size)  # every hypothesis of the default beam
    # the page in the browser aligns words by attention
    translator = replace(translator, alignment_rule=replace(translator.alignment_rule, by="attention"))
    first = translator.translate([text], search=beam, truncate=True)[0]
    write_graphs(translator_graphs(translator.model), translator, folder)
    alignment = first.page_record()
    write_settings(folder / FILES["settings"], beam, alignment["rule"], translator.placeholders)
    exported = LoadedExport(folder)
    parity = compare_translations(translator, exported, random_lines(translator.source_vocabulary))
    parity = replace(parity, placeholders=False)  # unlike the graphs, the page replaces names and numbers by signs
    difference = check_translator(exported, translator)
    if not (parity.holds and difference.holds):
        raise InputError(
            f"{translator.name} as ONNX graphs does not translate as the translator does, so no site was written: "
            f"{parity}; they differ by up to {difference}."
        )
    write_projections(first.page_trace, folder / FILES["outputs"])
    return Exported(
        kind="translator",
        first=first.page_trace,
        alignment=alignment,
        files=FILES,
        max_tokens=translator.model.config.max_tokens - 1,  # the model also reads EOS
        difference=difference,
        report=f"{parity}; at most {difference}",
    )


def write_settings(path: Path, beam: Beam, rule: dict[str, object], placeholders: Placeholders | None) -> None:
    """Add the settings of beam search and word alignment to config.json, for the page's own search.

    The code points that Python's version of Unicode does not define are added, too. Python does not compose them (NFC).
    The page must not compose them either, although a newer browser may define them.
    """
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= {
        "beam": {"size": beam.size, "length_penalty": beam.length_penalty},
        "limit": {"per_piece": TOKENS_PER_SOURCE_TOKEN, "extra": EXTRA_TOKENS},
        "rule": rule,
        "latin": placeholders and placeholders.latin,
        "unassigned": unassigned_code_points(),
    }
    path.write_text(json.dumps(config, separators=(",", ":")) + "\n", encoding="utf-8")


def check_translator(exported: LoadedExport, translator: Translator) -> Difference:
    """Return the largest differences between the ONNX graphs and the model, on random lines translated greedily."""
    lines = random_lines(translator.source_vocabulary, n_lines=N_TRACED)
    differences = []
    for translation in translator.translate(lines, search=Greedy()):
        if not translation.target_ids:
            continue
        if isinstance(translator.model, Recurrent):
            differences.append(Difference(weights=weights_difference(exported, translation), others=0.0))
        else:
            differences.append(compare(vectors_of(exported, translation), translation.page_trace, weights=True))
    return Difference.largest(differences)


@torch.no_grad()
def weights_difference(exported: LoadedExport, translation: Translation) -> float:
    """Return the largest difference of an attention weight between a recurrent model and its ONNX graphs, on a text."""
    name = block_name("cross", 0, WEIGHTS)
    weights = torch.cat([torch.from_numpy(step[name]) for step in outputs_of(exported, translation)], dim=2)
    return float((weights - translation.trace.attended["cross"][0].pattern.dense()).abs().max())


def outputs_of(exported: LoadedExport, translation: Translation) -> list[dict[str, np.ndarray]]:
    """Run exported graphs on a source and its translation; return the outputs of each decoding step, by name."""
    steps = exported.steps(translation.source_ids)  # yields the outputs of a step; is sent the next target token
    return [next(steps), *map(steps.send, translation.target_ids)]


def vectors_of(exported: LoadedExport, translation: Translation) -> dict[str, torch.Tensor]:
    """Run exported graphs on a source and its translation; return all vectors of the layers, named by `block_name`."""
    outputs = outputs_of(exported, translation)
    last_outputs = {name: torch.from_numpy(array) for name, array in outputs[-1].items()}
    vectors = {name: tensor for name, tensor in last_outputs.items() if name.startswith("encoder ")}
    n_layers = sum(name.startswith("cross ") for name in last_outputs)  # each has one such output, its query
    for layer in range(n_layers):
        for kind, prefix in (("decoder", "present"), ("cross", "source")):
            query = block_name(kind, layer, "query")
            vectors[query] = torch.cat([torch.from_numpy(step[query]) for step in outputs], dim=2)
            for part in PARTS[1:]:
                vectors[block_name(kind, layer, part)] = last_outputs[f"{prefix}_{part}_{layer}"]
        for name in (block_name("decoder", layer, part) for part in HIDDEN):
            vectors[name] = torch.cat([torch.from_numpy(step[name]) for step in outputs], dim=2)
    return vectors
