"""Compiles the script argv[1] without running it. Says `no run` on standard output where it surely has no
function that prs calls, and `newer` where what is wrong with it may be right in a newer Python."""

import ast
import re
import resource
import symtable
import sys

# Bytes that a script may take here: another user may have written it.
MEMORY = 2 << 30
# What came with versions of Python, as a line begins with it or has it.
CAME_WITH = [
    ((3, 10), r"^\s*(match|case)\b|\bwith\s*\("),
    ((3, 11), r"\bexcept\s*\*|\[[^]]*\*"),
    ((3, 12), r"^\s*type\s+\w|^\s*(class|def|async\s+def)\s+\w+\s*\[|\b[rR]?[fF][rR]?[\"']"),
    ((3, 14), r"\b[rR]?[tT][rR]?[\"']|\bexcept\b[^:]*,"),
]
# Names that prs calls.
CALLED = ("run", "enqueue")
# What can make names that nobody sees here.
MAKES_NAMES = {"exec", "eval", "globals", "locals", "vars", "setattr", "__getattr__", "modules", "__dict__"}


def may_be_newer(error, source):
    """Whether a line at the error has what this Python does not know yet."""
    if type(error) is not SyntaxError or not error.lineno:
        return False
    lines = source.decode("utf-8", "replace").splitlines()
    near = lines[max(error.lineno - 2, 0) : error.lineno + 1]
    newer = [pattern for version, pattern in CAME_WITH if version > sys.version_info[:2]]
    return any(re.search(pattern, line) for pattern in newer for line in near)


def binds(table, name):
    """Whether the module of this table, or a function in it, gives the module this name."""
    if name in table.get_identifiers():
        symbol = table.lookup(name)
        is_bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
        if is_bound and (table.get_type() == "module" or symbol.is_declared_global()):
            return True
    return any(binds(child, name) for child in table.get_children())


def may_have_run(source, path):
    """Whether the script has a function that prs calls, or may get one while it is imported."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return True
        if {getattr(node, field, None) for field in ("id", "attr", "name")} & MAKES_NAMES:
            return True
    table = symtable.symtable(source, path, "exec")
    return any(binds(table, name) for name in CALLED)


def check(path):
    with open(path, "rb") as file:
        source = file.read()
    try:
        compile(source, path, "exec")
    except SyntaxError as error:
        if may_be_newer(error, source):
            print("newer")
        raise
    if not may_have_run(source, path):
        print("no run")


_, most = resource.getrlimit(resource.RLIMIT_AS)
if most == resource.RLIM_INFINITY or most > MEMORY:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
check(sys.argv[1])
