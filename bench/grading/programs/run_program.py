"""Runs one function on the inputs of a task, and writes what it returns: within the sandbox, a process for each program.

Reads a JSON object: code, entry, reference (true for the task's own solution), line (a row of the release of EvalPlus)
or test (a test of the Hub's form), limits (seconds for each input, or null). Writes lines of JSON: the counts, then for
each input its value and seconds, or an error, then done. What is right is not known in here.
"""

import ast
import hashlib
import json
import os
import resource
import signal
import sys
import time

GIB = 1 << 30


def limit(seconds):
    bounds = [
        (resource.RLIMIT_AS, GIB),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 1 << 20),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, 64),
        (resource.RLIMIT_CORE, 0),
    ]
    for name, bound in bounds:
        hard = resource.getrlimit(name)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(name, (bound, bound))


def long(content, kind):
    return ["long", f"{kind} {hashlib.sha256(content).hexdigest()}"]


def tagged(value):
    if value is None:
        return ["none"]
    if isinstance(value, bool):
        return ["bool", str(int(value))]
    if isinstance(value, int):
        size = int.bit_length(value)
        if size <= 10_000:
            return ["int", int.__repr__(value)]
        # Python takes minutes to write the digits of the largest.
        return long(int.to_bytes(value, size // 8 + 1, "big", signed=True), "int")
    if isinstance(value, float):
        return ["float", float.__repr__(value)]
    if isinstance(value, complex):
        return ["complex", repr(value.real), repr(value.imag)]
    if isinstance(value, str):
        text = str.__str__(value)
        if len(text) <= 10_000:
            return ["str", text]
        return long(text.encode("utf-8", "surrogatepass"), "str")
    if isinstance(value, list):
        return ["list", [tagged(item) for item in list.__iter__(value)]]
    if isinstance(value, tuple):
        return ["tuple", [tagged(item) for item in tuple.__iter__(value)]]
    if isinstance(value, (set, frozenset)):
        return ["set", [tagged(item) for item in value]]
    if isinstance(value, dict):
        return ["dict", [[tagged(key), tagged(item)] for key, item in dict.items(value)]]
    return ["other", type(value).__name__]


def inputs_of(request):
    if request["line"] is not None:
        row = json.loads(request["line"])
        return row["base_input"] + row["plus_input"], len(row["base_input"])
    for node in ast.walk(ast.parse(request["test"])):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "inputs":
            return eval(compile(ast.Expression(node.value), "inputs", "eval"), {}), None
    raise ValueError("the test has no inputs")


def parsed(text):
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def longest_program(text, entry):
    """The text, or of a text that is no program the longest run of lines that is one and defines the function."""
    if parsed(text) is not None:
        return text
    lines = text.split("\n")
    best = ""
    for start, line in enumerate(lines):
        if not line.startswith(("def ", "async def ", "import ", "from ", "class ", "@")):
            continue
        for end in range(len(lines), start, -1):
            run = "\n".join(lines[start:end])
            if len(run) <= len(best):
                break
            if f"def {entry}" in run and parsed(run) is not None:
                best = run
    return best


def definitions(text, entry):
    """A program without what it does besides defining: prints, checks of its own, calls."""
    tree = ast.parse(longest_program(text, entry))
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    tree.body = [node for node in tree.body if isinstance(node, kept)]
    return tree


def too_long(*_):
    raise TimeoutError


def main():
    begun = time.perf_counter()
    request = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)

    def emit(line):
        out.write(json.dumps(line) + "\n")
        out.flush()

    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    limit(request["seconds"])
    try:
        inputs, base = inputs_of(request)
        emit({"count": len(inputs), "base": base})
    except Exception as error:
        emit({"failure": f"{type(error).__name__}: {error}"})
        return
    # An exit within the program is no end of its tests.
    try:
        space = {"__name__": "program"}
        tree = ast.parse(request["code"]) if request["reference"] else definitions(request["code"], request["entry"])
        exec(compile(tree, "program", "exec"), space)
        function = space[request["entry"]]
    except BaseException as error:
        emit({"failure": type(error).__name__})
        return
    signal.signal(signal.SIGALRM, too_long)
    for index, given in enumerate(inputs):
        line = {"index": index}
        if request["reference"] and request["entry"] == "find_zero":
            line["given"] = tagged(given)
        if request["limits"] is not None:
            signal.setitimer(signal.ITIMER_REAL, request["limits"][index])
        try:
            started = time.perf_counter()
            value = function(*given)
            line["seconds"] = time.perf_counter() - started
            signal.setitimer(signal.ITIMER_REAL, 0)
            line["value"] = tagged(value)
        except BaseException as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            line["error"] = type(error).__name__
        emit(line)
    emit({"done": True, "total": time.perf_counter() - begun})


main()
