"""The package's modules import each other without circles, at the top of the file only."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "echotrain"


def own_imports(name, texts):
    """Modules among `texts` that the one of this name imports, by line; wherever they stand, under TYPE_CHECKING too."""
    found, here = {}, ["echotrain", *name.split(".")]
    for node in ast.walk(ast.parse(texts[name])):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*here[: -node.level or -len(here)], *filter(None, [node.module])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        for imported in names:
            _, _, module = imported.partition("echotrain.")
            while module and module not in texts:
                module = module.rpartition(".")[0]
            if module:
                found.setdefault(module, node.lineno)
    return found


def late_imports(name, texts):
    """Lines with an import from the package that is not at the top level of the module."""
    top = {node.lineno for node in ast.parse(texts[name]).body}
    return sorted(line for line in own_imports(name, texts).values() if line not in top)


def circle(graph):
    """Modules that import each other in a ring, the first one repeated at the end; None where there is no ring."""
    done = set()

    def visit(module, path):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        for other in sorted(graph[module]):
            ring = visit(other, [*path, module])
            if ring:
                return ring
        done.add(module)
        return None

    return next((ring for ring in (visit(module, []) for module in sorted(graph)) if ring), None)


def sources():
    paths = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items()}


def test_modules_import_each_other_without_circles():
    texts = sources()
    graph = {name: set(own_imports(name, texts)) for name in texts}
    assert graph["client"] >= {"delivery", "image"} and "nifti" in graph["image"]  # the imports are seen
    assert "errors" in graph["commands.girf"] and "commands.girf" in graph["__main__"]
    assert circle(graph) is None


def test_imports_stand_at_the_top():
    texts = sources()
    assert {name: late_imports(name, texts) for name in texts if late_imports(name, texts)} == {}


@pytest.mark.parametrize(
    "b", ["from .a import x", "from . import a", "import echotrain.a", "def f():\n    from .a import x"]
)
def test_a_circle_is_found(b):
    texts = {"a": "import numpy\nfrom .b import y", "b": b, "c": "from .a import x"}
    graph = {name: set(own_imports(name, texts)) for name in texts}
    assert graph == {"a": {"b"}, "b": {"a"}, "c": {"a"}}
    assert circle(graph) == ["a", "b", "a"]
    assert late_imports("b", texts) == ([2] if b.startswith("def") else [])
