"""Tests of the source itself: imports between folders and files, docstrings of modules, spaces in messages."""

import ast
import posixpath
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

SRC = Path(__file__).parents[1] / "src"
FILES = {str(path.relative_to(SRC)): path.read_text() for path in sorted((SRC / "regard").rglob("*.py"))}
TREES = {name: ast.parse(text) for name, text in FILES.items()}

ROOMS = {
    "visible_text": "",
    "errors": "visible_text",
    "likely_encoding": "",
    "device": "errors",
    "checks": "errors",
    "atomic_files": "",
    "json_file": "",
    "tensor_file": "atomic_files errors",
    "typed_fields": "",
    "kernels": "errors",
    "attention": "kernels",
    "text": "atomic_files errors json_file likely_encoding",
    "transformer": "attention kernels checks errors",
    "recurrent": "attention kernels checks",
    "effects": "attention errors",
    "tracing": (
        "attention effects atomic_files errors json_file likely_encoding tensor_file typed_fields visible_text"
    ),
    "evaluation": "errors",
    "translation": (
        "attention kernels text transformer recurrent effects tracing "
        "atomic_files device errors json_file tensor_file typed_fields"
    ),
    "by_hand": "attention tracing translation errors",
    "export": "attention text transformer recurrent tracing translation errors",
    "training": "text evaluation translation atomic_files device errors json_file tensor_file typed_fields",
    "views": "attention effects tracing by_hand evaluation atomic_files errors visible_text",
    "regard": "",
    "lessons": "by_hand effects tracing views errors",
    "explore": "attention effects tracing translation by_hand views errors typed_fields",
    "serve": "explore translation errors",
    "site": "attention text transformer recurrent effects tracing translation export lessons views errors",
    "cli": (
        "explore serve site lessons kernels attention text tracing evaluation translation by_hand export training "
        "views errors visible_text regard"
    ),
    "__main__": "cli",
}
"""For each folder or top-level module of regard (a "room"), the others that it may import from; the lowest first."""

MAY_IMPORT = {room: {room, *others.split()} for room, others in ROOMS.items()}

DOORS = {
    ("regard/__init__.py", "views"),
    *((f"regard/tracing/{name}.py", "views") for name in ("trace", "head", "comparison", "indirect_effects")),
    *((f"regard/translation/{name}.py", "views") for name in ("alignment", "translation")),
}
"""Imports that point upwards, inside functions only: from a trace, head, comparison, indirect effects, alignment
or translation to its views, and from the package's front to what a notebook shows."""


def room_of(module: str) -> str:
    """E.g. attention for regard.attention.attend."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "regard"


def imports(tree: ast.AST, module: str, inside: bool = False) -> list[tuple[str, bool]]:
    """Return every module that a syntax tree imports, and whether the import is inside a function."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, inside) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            source = ".".join(filter(None, [base, node.module]))
            # `from regard import tracing` names a room; `from regard import attend` goes through the front
            rooms = [a.name for a in node.names if source == "regard" and a.name in MAY_IMPORT]
            found += [(f"regard.{room}", inside) for room in rooms] or [(source, inside)]
        found += imports(node, module, inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))
    return found


def forbidden_imports(name: str, text: str) -> list[str]:
    module = name.removesuffix(".py").replace("/", ".")
    room = room_of(module.removesuffix(".__init__"))
    wrong = []
    for imported, inside in imports(ast.parse(text), module):
        if imported.split(".")[0] != "regard":
            continue
        to = room_of(imported)
        if to not in MAY_IMPORT.get(room, set()) and not (inside and (name, to) in DOORS):
            wrong.append(f"{name} imports {imported}")
    return wrong


def test_a_room_may_import_only_from_rooms_below_it():
    rooms = list(ROOMS)
    assert [room for place, room in enumerate(rooms) if not MAY_IMPORT[room] <= set(rooms[: place + 1])] == []


def test_every_import_is_of_a_room_that_may_be_imported():
    assert [wrong for name, text in FILES.items() for wrong in forbidden_imports(name, text)] == []


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("regard/attention/a.py", "from regard.tracing.trace import Trace", ["regard.tracing.trace"]),
        ("regard/attention/a.py", "def f():\n    import regard.views.page", ["regard.views.page"]),
        ("regard/attention/a.py", "from regard import attend", ["regard"]),
        ("regard/attention/a.py", "from ..errors import InputError", ["regard.errors"]),
        ("regard/attention/backends/a.py", "from ..grid import Grid\nfrom ... import views", ["regard.views"]),
        ("regard/views/a.py", "from regard import cli, tracing", ["regard.cli"]),
        ("regard/tracing/trace.py", "from regard.views import x\ndef f():\n    import regard.views", ["regard.views"]),
        ("regard/tracing/focus.py", "def f():\n    from regard.views import y", ["regard.views"]),
        ("regard/cellar/a.py", "import regard.attention.grid.grid", ["regard.attention.grid.grid"]),
        ("regard/errors.py", "import torch", []),
    ],
)  # fmt: skip
def test_a_forbidden_import_is_found(name, text, wrong):
    assert forbidden_imports(name, text) == [f"{name} imports {module}" for module in wrong]


def import_graph(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """The modules that each module of regard imports, inside functions and for type checkers too, except by DOORS."""
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in trees}
    graph: dict[str, set[str]] = {}
    for module, name in modules.items():
        graph[module] = set()
        for node in ast.walk(trees[name]):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [f"{node.module}.{alias.name}" for alias in node.names]
                imported = [one if one in modules else str(node.module) for one in imported]
            else:
                continue
            own = {one for one in imported if one in modules and (name, room_of(one)) not in DOORS}
            graph[module] |= own - {module}
    return graph


def test_no_files_import_each_other_in_a_circle():
    TopologicalSorter(import_graph(TREES)).prepare()  # raises CycleError


def test_a_circle_of_imports_is_found():
    files = {
        "regard/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from regard.b import B",
        "regard/b.py": "def f():\n    from regard.room import c",
        "regard/room/__init__.py": "",
        "regard/room/c.py": "import regard.a",
        "regard/d.py": "from regard.a import A",
        "regard/tracing/trace.py": "def f():\n    from regard.views.e import e",
        "regard/views/e.py": "from regard.tracing.trace import Trace",
    }
    with pytest.raises(CycleError) as circle:
        TopologicalSorter(import_graph({name: ast.parse(text) for name, text in files.items()})).prepare()
    assert set(circle.value.args[1]) == {"regard.a", "regard.b", "regard.room.c"}


FRONT = Path(__file__).parents[1] / "front" / "src"
SCRIPTS = {path.relative_to(FRONT).as_posix(): path.read_text() for path in sorted(FRONT.rglob("*.ts*"))}
IMPORT = re.compile(r"""^(?:import|export)\b[^;]*?["'](\.[^"']+)["'];""", re.MULTILINE)
"""A regular expression for an import of another file of the front end, which may extend over several lines."""


def script_graph(scripts: dict[str, str]) -> dict[str, set[str]]:
    """The files of the front end that each of its files imports; `scripts` has their texts by path."""
    graph: dict[str, set[str]] = {}
    for name, text in scripts.items():
        folder = PurePosixPath(name).parent
        imported = {posixpath.normpath(str(folder / path)) for path in IMPORT.findall(text)}
        graph[name] = {
            f"{path}{ending}" for path in imported for ending in (".ts", ".tsx") if f"{path}{ending}" in scripts
        }
    return graph


def test_no_scripts_import_each_other_in_a_circle():
    graph = script_graph(SCRIPTS)
    assert {"pages/trace-page.tsx", "words.ts"} <= graph["main.tsx"]
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_a_circle_of_scripts_is_found():
    scripts = {
        "a.ts": 'import "./page.css";\nimport type {\n  B,\n} from "./views/b";',
        "views/b.tsx": 'import { x } from "npm";\nexport { c } from "../c";',
        "c.ts": "import { a } from './a';",
        "d.ts": 'import { a } from "./a";',
    }
    with pytest.raises(CycleError) as circle:
        TopologicalSorter(script_graph(scripts)).prepare()
    assert set(circle.value.args[1]) == {"a.ts", "c.ts", "views/b.tsx"}


FRONT_ROOMS: dict[str, set[str]] = {
    "words.ts": set(),
    "trace": set(),
    "state": {"words.ts", "trace"},
    "parts": {"words.ts", "trace", "state"},
    "views": {"words.ts", "trace", "state", "parts"},
    "pages": {"words.ts", "trace", "state", "parts", "views"},
    "site": {"trace"},
    "site/answerer.ts": {"words.ts", "trace", "state", "site"},
    "main.tsx": {"words.ts", "trace", "state", "parts", "pages", "site/answerer.ts"},
}
"""For each room of front/src, a folder or a file, the rooms from which it may import; site/ runs in the worker."""


def front_room(name: str) -> str:
    """Return the room of a file of front/src; each view is a room."""
    folder, _, rest = name.partition("/")
    return name if name in FRONT_ROOMS else f"views/{rest.split('/')[0]}" if folder == "views" else folder


def forbidden_imports_of_scripts(graph: dict[str, set[str]]) -> list[str]:
    found = []
    for name, imported in graph.items():
        room = front_room(name)
        allowed = FRONT_ROOMS.get(room, FRONT_ROOMS["views"])
        for other in sorted(imported):
            to = front_room(other)
            if to != room and to not in allowed and not (to.startswith("views/") and "views" in allowed):
                found.append(f"{name} imports {other}")
    return found


def test_scripts_import_only_from_the_rooms_below():
    assert forbidden_imports_of_scripts(script_graph(SCRIPTS)) == []


def test_forbidden_imports_of_scripts_are_found():
    graph = {
        "views/heads/a.ts": {"views/heads/b.ts", "views/map/b.ts", "parts/c.ts"},
        "parts/c.ts": {"views/medium.tsx"},
        "pages/d.tsx": {"views/medium.tsx"},
        "site/worker.ts": {"state/state.ts", "trace/data.ts"},
    }
    assert forbidden_imports_of_scripts(graph) == [
        "views/heads/a.ts imports views/map/b.ts",
        "parts/c.ts imports views/medium.tsx",
        "site/worker.ts imports state/state.ts",
    ]


def early_imports_of_transformers(name: str) -> list[str]:
    """Return the imports of transformers that run when a file is imported, or that are in the folder attention/."""
    tree = TREES[name]
    checked_only = [
        child for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    ]  # fmt: skip
    early = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in checked_only:
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            of_transformers = any(module.split(".")[0] == "transformers" for module in modules)
            if of_transformers and (node in tree.body or name.startswith("regard/attention/")):
                early.append(f"{name}: {ast.unparse(node)}")
    return early


def test_transformers_is_imported_only_when_it_is_used():
    assert [line for name in FILES for line in early_imports_of_transformers(name)] == []


def test_every_module_has_a_docstring():
    assert [name for name, tree in TREES.items() if not ast.get_docstring(tree)] == []


# Messages


MEETING = re.compile(r"""(?<![\s(])(?<!\\n)['"]{1,3}(?:\ *\#.*)?\n\s*[fFrRbB]*['"]{1,3}(?![\s'"])(?!\\n)""", re.VERBOSE)
"""The end of a string literal and the beginning of the next one on a later line, without white space in either."""


def meeting_without_a_space(text: str) -> list[str]:
    """Return the places in raise statements where adjacent literals are joined without a space between two words."""
    raised = (ast.get_source_segment(text, node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Raise))
    return [found[0] for segment in raised for found in MEETING.finditer(segment)]


def test_names_and_files_of_the_front_end_in_comments_exist():
    missing = []
    for name, text in FILES.items():
        paths = [("", path) for path in re.findall(r"front/src/([\w./-]+)\b", text)]
        for word, path in [*paths, *re.findall(r"`(\w+)`\s+in\s+`?front/src/([\w./-]+)\b", text)]:
            if not re.search(rf"\b{word}\b", SCRIPTS.get(path, "")):
                missing.append(f"{name}: {word} in {path}")
    for name, text in SCRIPTS.items():
        for path in re.findall(r"Python's ([\w/]+\.py)", text):
            if f"regard/{path}" not in FILES:
                missing.append(f"{name}: {path}")
    assert missing == []


def test_no_words_of_a_message_run_together():
    wrong = {name: meeting_without_a_space(text) for name, text in FILES.items()}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ('"one"\n    "two"', 1),
        ('"one "\n    "two"', 0),
        ('"one"\n    " two"', 0),
        ('f"one {x}"\n    f"{y} two"', 1),
        ('f"one {x} "  # a comment\n    "two"', 0),
        ("'one;'\n\n    f'''two'''", 1),
        ('"one\\n"\n    "two"', 0),
        ('"one", "two"', 0),
        ('"one" + x + "two"', 0),
        ('"one"\n    "two "\n    "three"\n    "four"', 2),
    ],
)
def test_words_that_run_together_are_found(message, wrong):
    assert len(meeting_without_a_space(f"def f():\n  raise ValueError(\n    {message}\n  )\n")) == wrong
    assert meeting_without_a_space(f"x = [\n    {message}\n]\n") == []
