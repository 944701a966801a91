"""The verdicts about a model type from the measurements of a trial: for `watching`, for `install`, and a remark."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from seen_attention import TOLERANCE, related

EXACT, PARTLY, REFUSED, WRONG, NOT_TRIED = "exact", "partly", "refused", "wrong", "not tried"
NO_ATTENTION, NO_WEIGHTS = "no attention", "no weights"
SIDES = "none", "right", "left"


def differs_itself(details: Mapping[str, Any], side: str) -> bool:
    """Return whether the outputs of the model differ between eager attention and its default attention."""
    return details[side].get("own_difference", 0.0) > 1e-3


def watching_verdict(details: Mapping[str, Any]) -> tuple[str, str]:
    all_runs = ((side, kind, details.get(side, {}).get(kind)) for side in SIDES for kind in ("default", "eager"))
    watched = [(side, kind, run) for side, kind, run in all_runs if run is not None and "error" not in run]
    if not watched:
        return NOT_TRIED, "no run could be watched"
    runs = [run for *_, run in watched]
    differing_sides = [side for side in SIDES if side in details and differs_itself(details, side)]
    comparable = [run for side, kind, run in watched if kind != "default" or side not in differing_sides]
    differing = {path: d for run in comparable for path, d in run["compare"]["differing"].items()}
    missing = {path for run in runs for path in run["compare"]["missing"]}
    unseen = {path: reason for run in runs for path, reason in run["unseen"].items()}
    softmax = {path for run in runs for path in run["softmax_in_unseen"]}
    n_steps = max(run["steps"] for run in runs)
    n_references = max(details[side].get("n_references", 0) for side in SIDES if side in details)
    if any(not run["bits"] and run.get("repeatable", True) for run in runs):
        return WRONG, "the output changes while the model is watched"
    checks = [run["check"] for run in runs if not run.get("in_place") and not run.get("nan")]
    if any(not check <= TOLERANCE for check in checks):  # also if the check is NaN
        return WRONG, f"contexts differ by {max(checks):.2g}"
    if differing:
        return WRONG, f"weights differ by {max(differing.values()):.2g} in {names(differing)}"
    if fault := fault_of_writing(details):
        return WRONG, fault
    if n_steps == 0 and n_references == 0 and not softmax:
        return NO_ATTENTION, "attention without a softmax over keys: " + names(unseen) if unseen else ""
    silent = {path for path in missing if not any(explains(other, path) for other in unseen)}
    if silent:
        return WRONG, f"missing without a word: {names(silent)}"
    if softmax or missing:
        return PARTLY, "not seen: " + names(softmax or missing)
    remarks = []
    if unseen:
        remarks.append("without softmax, listed as unseen: " + names(unseen))
    if differing_sides:
        remarks.append("transformers computes something else with eager than by default")
    if any(run.get("in_place") for run in runs):
        remarks.append("contexts not checked: the model changes them in place")
    if any(run.get("nan") for run in runs):
        remarks.append("its own outputs have NaN for these inputs")
    if n_references == 0:
        remarks.append("returns no weights; contexts recomputed")
    return EXACT, "; ".join(remarks)


def writings(details: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the measurements of the watched runs of `generate`."""
    return [run for run in details.get("generate", {}).values() if isinstance(run, Mapping)]


def fault_of_writing(details: Mapping[str, Any]) -> str:
    """Return what is wrong with the recorded attention of `generate`, or ""."""
    for run in writings(details):
        if not run["written"]:
            return "`generate` writes something else while it is watched"
        if run["differing"] and not run["unseen"]:
            return f"`generate`: weights differ by {max(run['differing'].values()):.2g}"
        if run["missing"] and not run["unseen"]:
            return f"`generate`: {len(run['missing'])} weights are missing without a word"
        if run["check"] > TOLERANCE:
            return f"`generate`: contexts differ by {run['check']:.2g}"
    return ""


def install_verdict(details: Mapping[str, Any], watching: str) -> tuple[str, str]:
    if "install_refusal" in details:
        return (NO_ATTENTION, "") if watching == NO_ATTENTION else (REFUSED, "")
    entries = [details[side]["install"] for side in SIDES if "install" in details.get(side, {})]
    entries = [entry for entry in entries if "reference_error" not in entry or "n_patterns" in entry]
    if refusals := [entry["refused"] for entry in entries if "refused" in entry]:
        return REFUSED, refusals[0]
    if errors := [entry["error"] for entry in entries if "error" in entry]:
        return WRONG, f"install: {errors[0]}"
    if watching == NO_ATTENTION:
        return NO_ATTENTION, ""
    comparable = [
        details[side]["install"]
        for side in SIDES
        if "install" in details.get(side, {}) and not differs_itself(details, side)
    ]
    if differing := [d for entry in comparable for d in entry.get("compare", {}).get("differing", {}).values()]:
        return WRONG, f"install: patterns differ by {max(differing):.2g}"
    if max((entry.get("output", 0.0) for entry in entries), default=0.0) > 1e-3:
        return WRONG, "install: the output differs"
    missing = {name for entry in entries for name in entry.get("compare", {}).get("missing", [])}
    n_patterns = max((entry.get("n_patterns", 0) for entry in entries), default=0)
    if n_patterns == 0 and not missing:
        return NO_WEIGHTS, ""
    if missing:
        return PARTLY, f"install: the model's own tensors in {names(missing)}"
    return EXACT, ""


def explains(unseen: str, missing: str) -> bool:
    """Return whether the unseen module at one path may have computed the weights that are missing at another path."""
    return related(missing, unseen) or unseen == "" or missing == "outputs"


def names(paths: Iterable[str], n: int = 3) -> str:
    """Return at most `n` different module paths as one text, with * in place of layer numbers."""
    patterns = sorted({re.sub(r"\.\d+", ".*", path) for path in paths})
    return ", ".join(f"`{pattern}`" for pattern in patterns[:n]) + (" …" if len(patterns) > n else "")
