"""Do the unit tests notice when the mathematics is wrong? Breaks a module in every small way, one
at a time.

    python tests/mutation.py                # circuits, heads, composition, interventions, paths
    python tests/mutation.py heads paths

A mutant is the module with one expression or statement changed: another operator, a constant one
off, a transpose, a call, a keyword, an annotation, a decorator or a `raise` left out. It is killed
if the module's tests fail or hang. One that survives must stand in EXPLAINED with its reason, else
the exit status is 1.
"""

import ast
import copy
import gc
import importlib
import os
import resource
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests" / "unit"
UNIT = {  # what stands for "its tests"; the last file is limited to the module's own calls
    "circuits": ["test_circuits.py"],
    "heads": ["test_heads.py"],
    "composition": ["test_composition.py", "test_match_matrix.py"],
    "interventions": ["test_interventions.py"],
    "paths": ["test_paths.py"],
}
SECONDS = 60  # of processor time for each mutant
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    **{
        ast.Add: ast.Sub,
        ast.Sub: ast.Add,
        ast.Mult: ast.Div,
        ast.Div: ast.Mult,
        ast.FloorDiv: ast.Mod,
    },
    **{
        ast.Mod: ast.FloorDiv,
        ast.Pow: ast.Mult,
        ast.And: ast.Or,
        ast.Or: ast.And,
        ast.In: ast.NotIn,
    },
    **{
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
        ast.Lt: ast.LtE,
        ast.LtE: ast.Lt,
        ast.Gt: ast.GtE,
        ast.GtE: ast.Gt,
    },
    **{ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
RENAMED = {
    "sum": "mean",
    "amax": "amin",
    "maximum": "minimum",
    "max": "min",
    "min": "max",
    "real": "imag",
}
RENAMED |= {
    "W_Q": "W_K",
    "W_K": "W_Q",
    "W_V": "W_K",
    "d_head": "d_model",
    "d_model": "d_head",
    "n_layers": "n_heads",
}
# the function, and a part of the change that no other change has: why no test can or need notice it
EXPLAINED = {
    (
        "circuits.module",
        "SIDE = «1024",
    ): "every size gives the same numbers; it is chosen for speed",
    (
        "circuits.module",
        "BLOCK = «2 → (3)",
    ): "every size gives the same numbers; it is chosen for speed",
    (
        "circuits.module",
        "BLOCK = 2**«22",
    ): "every size gives the same numbers; it is chosen for speed",
    (
        "circuits.full_ov",
        "«layer: int",
    ): "ov, which it calls first, checks the layer in the same words",
    (
        "circuits.full_ov",
        "«head: int",
    ): "ov, which it calls first, checks the head in the same words",
    ("circuits.self_rate", "table.shape[-«2 → (1)"): "the table is square",
    (
        "circuits.row_maxima",
        "views))»",
    ): "both are split alike, so they are always equally many",
    (
        "circuits.row_maxima",
        "strict=«True → False",
    ): "both are split alike, so they are always equally many",
    ("circuits.top_entries", "max(«1 → (2)»"): "every size of the pieces gives the same numbers",
    (
        "circuits.top_entries",
        "→ (BLOCK % n_columns)»",
    ): "every size of the pieces gives the same numbers",
    ("circuits.leads", "sum(«-1 → (1)»)"): "a matrix has two axes: the last is number 1",
    ("circuits.leads", "B.mean(«-1 → (1)»)"): "a matrix has two axes: the last is number 1",
    (
        "composition.reading",
        "«mode: str → mode»",
    ): "what is no mode is refused in one sentence without it, too",
    (
        "composition.match_matrix",
        "«model: ",
    ): "qk, which it calls first, checks the model in the same words",
    (
        "composition.scores",
        "range(«n_layers - 1 → (n_layers",
    ): "after the last layer there is none to go through",
    (
        "composition.scores",
        "range(n_layers - «1 → (0)",
    ): "after the last layer there is none to go through",
    (
        "heads.patterns",
        "run_with_cache(tokens, names_filter",
    ): "saves the time for the logits, which are thrown away",
    (
        "heads.patterns",
        "run_with_cache(tokens, return_type=None))»",
    ): "saves memory; other entries are not read",
    (
        "heads.value_weighted",
        "run_with_cache(tokens, names_filter",
    ): "saves the time for the logits, not used here",
    (
        "heads.value_weighted",
        "run_with_cache(tokens, return_type=None))»",
    ): "saves memory; other entries are not read",
    (
        "interventions.module",
        "ROWS = «4 → ",
    ): "every number of rows gives the same numbers; it is chosen for memory",
    (
        "interventions.cut",
        "*«cuts: Cut",
    ): "a cut of a wrong kind is refused in one sentence without it, too",
    (
        "interventions.move",
        "«return z → return None",
    ): "z is changed in place, and TransformerLens keeps it",
    (
        "interventions.hide",
        "«return scores → return None",
    ): "scores are changed in place, and TransformerLens keeps them",
    (
        "interventions.all_but",
        "*«kept: Edge",
    ): "what is no door is refused in one sentence without it, too",
    (
        "interventions.stand_ins",
        "«@torch.no_grad()",
    ): "the course's models have no gradients; it saves time for others",
    (
        "interventions.stand_ins",
        "require_head(model, layer, «0 → (1)»)",
    ): "only the layer is in question",
    (
        "interventions.stand_ins",
        "run_with_cache(rows, names_filter",
    ): "saves the time for the logits, not used here",
    (
        "interventions.stand_ins",
        "run_with_cache(rows, return_type=None))»",
    ): "saves memory; other entries are not read",
    ("heads.prefix_matching_score", "shape[-«1 → (2)»"): "the pattern is square",
    ("paths.of_tables", "QK.shape[«-1 → (1)»]"): "each table is square",
    ("paths.of_tables", "QK.shape[-«1 → (2)»]"): "each table is square",
    ("paths.of_tables", "scores[«0 → (-1)»]"): "all heads have scores of one shape",
    (
        "paths.run",
        "*«cuts: Cut",
    ): "a cut of a wrong kind is refused in one sentence without it, too",
    (
        "paths.run",
        "run_with_cache( tokens[None], names_filter",
    ): "saves memory; other entries are not read",
    ("paths.run", "logits[«0 → (-1)»], none"): "there is one text: the first is the last",
    ("paths.run", "logits=logits[«0 → (-1)»]"): "there is one text: the first is the last",
    ("paths.terms", "«zip(all_heads(model)"): "there are as many heads as there are rows",
    ("paths.terms", "strict=«True → False»"): "there are as many heads as there are rows",
    (
        "paths.pairs",
        "stream[«-1 → (1)»",
    ): "without LayerNorm the direction is the same at every stream",
    ("paths.pairs", "stream[-«1 → "): "without LayerNorm the direction is the same at every stream",
}


def _changed(node: ast.AST, **fields: Any) -> str:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return f"({ast.unparse(other)})"


def _without(items: list, place: int) -> list:
    return items[:place] + items[place + 1 :]


def _variants(node: ast.AST) -> Iterator[str]:
    """What may stand in the place of one expression or statement."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            if (
                type(op) in SWAPPED
            ):  # of a matrix product no side is left out: its shape would give it away
                yield _changed(node, op=SWAPPED[type(op)]())
                yield from (f"({ast.unparse(side)})" for side in (left, right))
        case ast.BoolOp(op=op, values=values):
            yield _changed(node, op=SWAPPED[type(op)]())
            yield from (f"({ast.unparse(value)})" for value in values)
        case ast.Compare(ops=ops):
            for place, sign in enumerate(ops):
                yield _changed(node, ops=[*ops[:place], SWAPPED[type(sign)](), *ops[place + 1 :]])
            if len(ops) == 1 and not isinstance(ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                yield f"(not ({ast.unparse(node)}))"
        case ast.UnaryOp(operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(value=bool()):
            yield str(not node.value)
        case ast.Constant(value=int() | float() as number):
            yield from (f"({number + step})" for step in (1, -1))
        case ast.IfExp(body=body, orelse=orelse):
            yield from (f"({ast.unparse(side)})" for side in (body, orelse))
        case ast.Attribute(value=value, attr=attr):
            if attr in ("T", "mT"):
                yield ast.unparse(value)
            if attr in RENAMED:
                yield _changed(node, attr=RENAMED[attr])
        case ast.Name(id=name) if name in RENAMED:
            yield RENAMED[name]
        case ast.Call(func=func, args=args, keywords=keywords):
            if isinstance(func, ast.Attribute) and not isinstance(func.value, ast.Name):
                yield ast.unparse(func.value)  # the method left out
            for place in range(len(keywords)):
                yield _changed(node, keywords=_without(keywords, place))
            for place, argument in enumerate(args):
                if isinstance(argument, ast.Constant | ast.UnaryOp | ast.Tuple):
                    yield _changed(node, args=_without(args, place))
        case ast.Slice(lower=lower, upper=upper):
            for name, bound in (("lower", lower), ("upper", upper)):
                if bound is not None:
                    yield _changed(node, **{name: None})[1:-1]
                    yield _changed(node, **{name: ast.BinOp(bound, ast.Add(), ast.Constant(1))})[
                        1:-1
                    ]
        case ast.Return(value=ast.Tuple(elts=elts)):
            yield f"return {ast.unparse(ast.Tuple([*elts[1:], elts[0]]))}"
            yield "return None"
        case ast.Return() | ast.Yield():
            yield "return None" if isinstance(node, ast.Return) else "(yield)"
        case ast.Raise() | ast.Expr() | ast.AugAssign():
            yield "pass"


def _places(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node that computes something, with the function it is in: no docstrings, messages or
    type names.
    """
    if isinstance(node, ast.FunctionDef):
        owner = node.name
        for decorator in node.decorator_list:
            yield owner, decorator
        if any(
            ast.unparse(decorator) == "validated" for decorator in node.decorator_list
        ):  # else nobody reads them
            yield from (
                (owner, a)
                for a in [*node.args.args, node.args.vararg]
                if a is not None and a.annotation
            )
        children = [*node.args.defaults, *node.body]
    elif isinstance(node, ast.Raise):
        children = []
    elif isinstance(node, ast.Assign):
        children = [node.value]
    elif isinstance(node, ast.Lambda):
        children = [node.body]
    else:
        children = [*ast.iter_child_nodes(node)]
    yield owner, node
    for child in children:
        text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if not text and not isinstance(child, ast.Import | ast.ImportFrom):
            yield from _places(child, owner)


def mutants(module: str) -> Iterator[tuple[int, str, str]]:
    """Of a module: the line, what is changed (function: old → new), and the mutated source."""
    source = (ROOT / "course_utils" / f"{module}.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    decorators = {
        id(d) for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) for d in n.decorator_list
    }
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for owner, node in _places(tree, "module"):
        if not isinstance(node, ast.stmt | ast.expr | ast.arg):  # an operator, a list of arguments
            continue
        # the parser sets them
        assert node.end_lineno is not None and node.end_col_offset is not None
        start, end = (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )
        old = source.encode()[start:end].decode()
        variants: Iterable[str]
        if id(node) in decorators:
            start, variants = start - 1, [""]  # with its @
            old = f"@{old}"
        elif isinstance(node, ast.arg):
            variants = [node.arg]
        else:
            variants = _variants(node)
        for new in dict.fromkeys(variants):
            if isinstance(node, ast.stmt):  # keeps its indentation
                new = new.replace("\n", "\n" + " " * node.col_offset)
            text = (source.encode()[:start] + new.encode() + source.encode()[end:]).decode()
            before = source.encode()[starts[node.lineno - 1] : start].decode().lstrip()
            after = source.encode()[end : starts[node.end_lineno]].decode()
            changed = " ".join(f"{before}«{old} → {new}»{after}".split())
            yield node.lineno, f"{module}.{owner}: {changed}", text


def _passes(module: str, source: str) -> bool:
    """Do the module's tests pass with this source in its place?

    Asked in a child process, which ends with it.
    """
    target = importlib.import_module(f"course_utils.{module}")
    exec(compile(source, str(target.__file__), "exec"), vars(target))
    options = [
        "-x",
        "-q",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(ROOT),
        "--noconftest",
    ]
    own = pytest.main([*options, *(str(TESTS / file) for file in UNIT[module])])
    return not own and not pytest.main(
        [*options, str(TESTS / "test_arguments.py"), "-k", f"[{module}]"]
    )


def survives(module: str, source: str) -> bool:
    child = os.fork()  # torch and all else is loaded once, not once for each mutant
    if child:
        return os.waitpid(child, 0)[1] == 0
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.alarm(20 * SECONDS)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    try:
        os._exit(not _passes(module, source))
    except BaseException:
        os._exit(1)


def main(modules: list[str]) -> int:
    torch.set_num_threads(1)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path.insert(0, str(TESTS))
    importlib.import_module("test_arguments")  # which loads the package
    del sys.modules["test_arguments"]
    gc.freeze()  # a child that collects garbage copies all the memory that it shares: twice as slow
    gc.disable()
    failures = 0
    for module in modules or UNIT:
        if not survives(
            module, (ROOT / "course_utils" / f"{module}.py").read_text(encoding="utf-8")
        ):
            raise SystemExit(f"The tests of {module} fail without any mutation.")
        reasons = {key: 0 for key in EXPLAINED if key[0].startswith(f"{module}.")}
        mutated = survived = 0
        for line, change, source in mutants(module):
            mutated += 1
            if survives(module, source):
                survived += 1
                key = next(
                    (
                        key
                        for key in reasons
                        if change.startswith(f"{key[0]}: ") and key[1] in change
                    ),
                    None,
                )
                if key is None:
                    failures += 1
                else:
                    reasons[key] += 1
                print(
                    f"{module}.py:{line} {change}\n    "
                    f"{EXPLAINED[key] if key else 'SURVIVED, AND NOBODY KNOWS WHY'}",
                    flush=True,
                )
        for key in (key for key, times in reasons.items() if not times):
            failures += 1
            print(f"EXPLAINED has {key}, which no survivor needs.")
        print(
            f"{module}: {mutated} mutants, {mutated - survived} killed, {survived} survived",
            flush=True,
        )
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
