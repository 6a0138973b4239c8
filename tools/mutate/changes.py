"""What can be changed in a module: every small, plausible error, as an edit of its source."""

import ast
import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

SWAPPED_OPERATORS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
NAME_PAIRS = (
    "min max,amin amax,argmin argmax,minimum maximum,clamp_min clamp_max,cummin cummax,sum mean,floor "
    "ceil,any all,sin cos,"
    "zeros ones,zeros_like ones_like,rand randn,log log1p,exp expm1,sqrt square,abs neg,isfinite "
    "isnan,logical_and logical_or,"
    "min_horizontal max_horizontal,first last,head tail,union intersection,train eval,triu tril,mul add,mul_ "
    "add_"
)
SWAPPED_NAMES = {a: b for pair in NAME_PAIRS.split(",") for a, b in (pair.split(), pair.split()[::-1])}
DROPPED_METHODS = {"abs", "sqrt", "square", "exp", "log", "relu", "sort", "flip", "neg"}
DROPPED_ATTRIBUTES = {"mT", "T"}
# A number this small is a guard against division by zero; its exact size is not a statement.
GUARD = 1e-6
# What only words an error, a page or a type, or is a setting of the interpreter and not of a formula.
SILENT_CALLS = {
    "BadInput",
    "warn",
    "TypeVar",
    "cast",
    "ConfigDict",
    "getLogger",
    "info",
    "debug",
    "print",
    "field_validator",
    "model_validator",
}
SILENT_KEYWORDS = {
    "strict",
    "exist_ok",
    "parents",
    "encoding",
    "frozen",
    "slots",
    "kw_only",
    "stacklevel",
    "non_blocking",
    "indent",
    "copy",
    "maxsize",
}
SILENT_FUNCTIONS = {"__repr__", "__str__", "__rich__"}
# To exchange their arguments changes nothing, or can only raise an error.
FIXED_ARGUMENTS = {
    "isinstance",
    "issubclass",
    "map",
    "getattr",
    "hasattr",
    "maximum",
    "minimum",
    "max",
    "min",
    "mul",
    "add",
    "addcmul",
    "addcmul_",
    "equal",
}
# Arguments that may well have the same type: to exchange a text and a number would only raise an error.
SWAPPABLE = (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp)


@dataclass(frozen=True)
class Mutant:
    """One change of one line: where it is, what it says instead, and the source that results.

    ``function`` are the lines of the function around it, (0, 0) if there is none; a default, a field or a
    constant runs at import, so its line tells no test apart.
    """

    package: str
    module: str
    path: Path
    where: str
    line: int
    end_line: int
    runs_at_import: bool
    function: tuple[int, int]
    kind: str
    before: str
    after: str
    code: str
    original: str = field(repr=False)
    span: tuple[int, int]
    text: str

    @property
    def source(self) -> str:
        """The module with the change."""
        raw = self.original.encode()
        return (raw[: self.span[0]] + self.text.encode() + raw[self.span[1] :]).decode()

    @property
    def compiles(self) -> bool:
        """Whether it is still a program."""
        return _compiles(self.source)

    @property
    def place(self) -> str:
        """Module and function without the folders above, so that a move of the module changes nothing."""
        return ".".join(filter(None, (self.module.rpartition(".")[2], self.where)))

    def line_rank(self, seed: int) -> str:
        """A draw of the line."""
        return _draw(str(seed), self.place, self.code)

    def rank(self, seed: int) -> tuple[str, str]:
        """A draw of the kind and of the change; it depends on what is changed, not on where the file lies or
        what stands around it."""
        kind = (str(seed), self.place, self.code, self.kind)
        return _draw(*kind), _draw(*kind, self.before, self.after)


@dataclass(frozen=True)
class Edit:
    """Source text in the place of a node."""

    kind: str
    node: ast.expr | ast.stmt
    text: str


def mutants(path: Path, module: str, package: str) -> list[Mutant]:
    """All mutants of a module, in the order of the file; a few may not compile."""
    source = path.read_text()
    lines = source.splitlines()
    starts = [0, *accumulate(len(line) for line in source.encode().splitlines(keepends=True))]
    tree = ast.parse(source)
    found = {}
    for edit, place in _walk(tree, Place("", tree, True)):
        node, end = edit.node, edit.node.end_lineno or edit.node.lineno
        span = starts[node.lineno - 1] + node.col_offset, starts[end - 1] + (node.end_col_offset or 0)
        before = _flat(source.encode()[slice(*span)].decode())
        said = (edit.kind, before, _flat(edit.text), lines[node.lineno - 1].strip(), source, span, edit.text)
        found[span, edit.text] = Mutant(
            package, module, path, place.name, node.lineno, end, place.at_import, place.lines, *said
        )
    return list(found.values())


def _draw(*said: str) -> str:
    return hashlib.sha256("|".join(said).encode()).hexdigest()


@dataclass(frozen=True)
class Place:
    """Where in a module: the function or class, and whether this part of it runs when the module is
    imported."""

    name: str
    node: ast.AST
    at_import: bool

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line of the function; (0, 0) if there is none."""
        return (
            (self.node.lineno, self.node.end_lineno or 0)
            if isinstance(self.node, ast.FunctionDef)
            else (0, 0)
        )

    def inside(self, node: ast.AST) -> "Place":
        """The place of what stands in ``node``."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return Place(f"{self.name}.{node.name}".lstrip("."), node, self.at_import)
        return self


def _walk(node: ast.AST, place: Place) -> Iterator[tuple[Edit, Place]]:
    """Edits of a node and of what is below it, with their places."""
    if _is_silent(node):
        return
    place = place.inside(node)
    yield from ((edit, place) for edit in _edits(node))
    body = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    for child in _live_children(node):
        yield from _walk(child, replace(place, at_import=False) if child in body else place)


def _is_silent(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.Import() | ast.ImportFrom() | ast.Assert():
            return True
        case ast.FunctionDef(name=name):
            return name in SILENT_FUNCTIONS or any("overload" in ast.unparse(d) for d in node.decorator_list)
        case ast.Call():
            return _name(node.func) in SILENT_CALLS
        case ast.keyword(arg=name):
            return name in SILENT_KEYWORDS
        case ast.If(test=test):
            return "TYPE_CHECKING" in ast.unparse(test) or "__name__" in ast.unparse(test)
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="__init__"))):
            return True
        case ast.BinOp(op=ast.BitOr()):
            return all(_is_type(side) for side in (node.left, node.right))
    return False


def _live_children(node: ast.AST) -> Iterator[ast.AST]:
    """Children that compute something: no decorators, annotations, type parameters or bases."""
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.operand, ast.Constant)
        and isinstance(node.operand.value, int)
    ):
        return  # a negative number is changed as a whole
    skipped = {"decorator_list", "annotation", "returns", "bases", "type_params"}
    for name, value in ast.iter_fields(node):
        if name in skipped or (
            isinstance(node, ast.AnnAssign | ast.Assign) and name in {"target", "targets"}
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _edits(node: ast.AST) -> Iterator[Edit]:
    """What can be changed at this node itself."""
    match node:
        case ast.stmt():
            yield from _statement_edits(node)
        case ast.BinOp():
            yield from _arithmetic(node)
        case ast.Compare(ops=[op]):
            for other in SWAPPED_OPERATORS.get(type(op), ()):
                yield _replaced("comparison", node, ops=[other()])
        case ast.BoolOp():
            yield _replaced("and/or", node, op=SWAPPED_OPERATORS[type(node.op)][0]())
        case ast.UnaryOp():
            yield from _unary(node)
        case ast.IfExp():
            yield _replaced("branches swapped", node, body=node.orelse, orelse=node.body)
        case ast.Call():
            yield from _calls(node)
        case ast.Attribute() if node.attr in DROPPED_ATTRIBUTES:
            yield Edit("transpose dropped", node, ast.unparse(node.value))
        case ast.Constant():
            yield from _constants(node)
        case ast.Slice():
            yield from _slices(node)
        case ast.Dict():
            yield from _keys(node)


def _statement_edits(node: ast.stmt) -> Iterator[Edit]:
    match node:
        case ast.Expr(value=ast.Call()) | ast.Continue() | ast.Break():
            yield Edit("statement deleted", node, "pass")
        case ast.AugAssign(op=op):
            yield Edit("statement deleted", node, "pass")
            for other in SWAPPED_OPERATORS.get(type(op), ()):
                yield _replaced("arithmetic", node, op=other())
        case ast.If(body=[ast.Raise()], orelse=[]):
            yield Edit("guard deleted", node, "pass")
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call()):
            yield Edit("condition negated", node.test, f"(not {ast.unparse(node.test)})")


def _arithmetic(node: ast.BinOp) -> Iterator[Edit]:
    if any(isinstance(side, ast.List | ast.JoinedStr) or _is_text(side) for side in (node.left, node.right)):
        return
    if isinstance(node.op, ast.BitOr) and any(
        isinstance(side, ast.Dict | ast.Set) for side in (node.left, node.right)
    ):
        return
    for other in SWAPPED_OPERATORS.get(type(node.op), ()):
        yield _replaced("arithmetic", node, op=other())
    if isinstance(node.op, ast.Pow) and not isinstance(node.right, ast.Constant):
        yield Edit("exponent", node, f"({ast.unparse(node)} * {ast.unparse(node.left)})")
    if isinstance(node.op, ast.Sub) and not isinstance(node.right, ast.Constant):
        yield _replaced("operands swapped", node, left=node.right, right=node.left)


def _unary(node: ast.UnaryOp) -> Iterator[Edit]:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(n))):
            yield Edit("constant", node, f"-{n + 1}")
            yield Edit("sign", node, str(n))
        case ast.UnaryOp(op=ast.USub()):
            yield Edit("sign", node, f"({ast.unparse(node.operand)})")
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            yield Edit("negation dropped", node, f"({ast.unparse(node.operand)})")


def _calls(node: ast.Call) -> Iterator[Edit]:
    name = _name(node.func)
    if name in SWAPPED_NAMES:
        func = copy.copy(node.func)
        setattr(func, "attr" if isinstance(func, ast.Attribute) else "id", SWAPPED_NAMES[name])
        yield _replaced("name", node, func=func)
    if isinstance(node.func, ast.Attribute) and name in DROPPED_METHODS and not node.args:
        yield Edit("call dropped", node, ast.unparse(node.func.value))
    for i, (a, b) in enumerate(zip(node.args, node.args[1:]) if name not in FIXED_ARGUMENTS else ()):
        if isinstance(a, SWAPPABLE) and isinstance(b, SWAPPABLE) and ast.dump(a) != ast.dump(b):
            yield _replaced("arguments swapped", node, args=[*node.args[:i], b, a, *node.args[i + 2 :]])


def _constants(node: ast.Constant) -> Iterator[Edit]:
    match node.value:
        case bool(value):
            yield Edit("constant", node, str(not value))
        case int(value):
            yield Edit("constant", node, str(value + 1))
            if value == 1:
                yield Edit("constant", node, "0")
        case float(value) if abs(value) > GUARD:
            yield Edit("constant", node, repr(value * 1.5))
            yield Edit("constant", node, repr(value + 1))
        case float(0.0):
            yield Edit("constant", node, "1.0")


def _slices(node: ast.Slice) -> Iterator[Edit]:
    for bound in (node.lower, node.upper):
        if bound is not None and not isinstance(bound, ast.Constant):
            yield Edit("slice bound", bound, f"{ast.unparse(bound)} + 1")


def _keys(node: ast.Dict) -> Iterator[Edit]:
    """Two neighbouring entries of a table exchange their values."""
    for i, (a, b) in enumerate(zip(node.values, node.values[1:])):
        if node.keys[i] is not None and node.keys[i + 1] is not None and ast.dump(a) != ast.dump(b):
            yield _replaced("values swapped", node, values=[*node.values[:i], b, a, *node.values[i + 2 :]])


def _replaced(kind: str, node: ast.expr | ast.stmt, **fields: object) -> Edit:
    """The node with other fields, as text that is safe in its place."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    text = ast.unparse(changed)
    needs_parentheses = isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp)
    return Edit(kind, node, f"({text})" if needs_parentheses else text)


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _name(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _is_type(node: ast.expr) -> bool:
    """A class by the look of its name, None, or a union of them: part of an annotation."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name[:1].isupper() or name in {"int", "float", "str", "bool", "bytes"}
        case ast.BinOp(op=ast.BitOr()):
            return _is_type(node.left) and _is_type(node.right)
        case ast.Subscript():
            return _is_type(node.value) or (
                isinstance(node.value, ast.Name) and node.value.id in {"list", "dict", "tuple", "type"}
            )
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _flat(text: str) -> str:
    text = " ".join(text.split())
    return text[1:-1] if text.startswith("(") and text.endswith(")") and _compiles(text[1:-1]) else text
