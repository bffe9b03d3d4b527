"""Runs one-line cases and prints what each gave: its type and representation, or the type of the
exception.

A case is one line of Python; the value of its last expression is shown. Setting MESSAGES=1 adds the
messages of exceptions, which are for reading and not for comparing.
"""

import ast
import enum
import os
import signal
import types

# runs every case in a process of its own: for finding the cases that crash the reference
GUARD = os.environ.get("GUARD") == "1"
MESSAGES = os.environ.get("MESSAGES") == "1"


def type_name(t):
    """Returns the short dotted name of a type."""
    module = getattr(t, "__module__", "")
    name = getattr(t, "__qualname__", str(t))
    if module in ("builtins", "__main__", "cases"):
        return name
    return f"{module}.{name}".removeprefix("drjit.").replace("numpy.", "np.")


def show(value):
    """Returns the type and the one-line representation of a value."""
    if isinstance(value, type):
        return f"<{type_name(value)}>"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if value is None or (
        isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum)
    ):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, (list, tuple)):
        return type(value).__name__ + "(" + ", ".join(map(show, value)) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {show(v)}" for k, v in value.items()) + "}"
    text = repr(value).replace("\n", "⏎")
    extra = ""
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        extra = f"[{value.dtype}{value.shape}]"
        text = " ".join(str(value).split())
    return f"{type_name(type(value))}{extra} {text}"


def error_name(error):
    """Returns the name of the exception's first class that is part of Python."""
    return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


def error_names(error):
    """Returns the names of all classes of the exception that a handler may name."""
    general = (object, BaseException, Exception)
    kinds = [c for c in type(error).__mro__ if c.__module__ == "builtins"]
    return [c.__name__ for c in kinds if c not in general] or ["Exception"]


def run_case(line, names):
    """Executes one case in a copy of the names and returns what it gave."""
    scope = dict(names)
    scope["__name__"] = "cases"
    try:
        body = ast.parse(line).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "case", "exec"), scope)
        return (
            show(eval(compile(ast.Expression(last.value), "case", "eval"), scope)) if last else "ok"
        )
    except Exception as error:
        text = "!" + "/".join(error_names(error))
        if MESSAGES:
            cause = f"  <- {error.__cause__!r}" if error.__cause__ else ""
            text += ": " + " ".join(str(error).split())[:230] + cause
        return text


def cases(text, names):
    """Runs every line of the text; a line that starts with ## is printed as a title."""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("#"):
            print(line, flush=True)
        elif line and GUARD:
            guarded(line, names)
        elif line:
            print(f"{line}  ->  {run_case(line, names)}", flush=True)


def check(title, function):
    """Prints what a function of no arguments gives, for cases of several lines."""
    print(f"{title}  ->  {run_case('function()', {'function': function})}", flush=True)


def guarded(line, names):
    """Runs one case in a forked process, so that it may crash or hang."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        print(f"{line}  ->  {run_case(line, names)}", flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(f"{line}  ->  exit {-os.waitstatus_to_exitcode(status)}", flush=True)
