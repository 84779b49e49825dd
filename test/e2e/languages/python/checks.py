"""Prints a line of JSON for each check, and goes on where one fails."""

import json
import os
import traceback
import urllib.request

BASE_URL = os.environ["BASE_URL"]
API_KEY = os.environ["API_KEY"]
EMPTY_KEY = os.environ["EMPTY_KEY"]
MODEL = os.environ["MODEL"]


def go_on():
    """Lets the stream at the gate go on."""
    urllib.request.urlopen(os.environ["CONTINUE_URL"]).read()


def report(name, ok, detail="", usage=None):
    line = {"check": name, "ok": bool(ok), "detail": str(detail)}
    if usage:
        line["usage"] = [usage.prompt_tokens, usage.completion_tokens]
    print(json.dumps(line), flush=True)


def check(name, run):
    """`run` returns what it got, and the usage that it was told, if any."""
    try:
        got, *usage = run()
        report(name, True, got, *usage)
    except Exception:
        report(name, False, traceback.format_exc())


def equal(got, expected):
    if got != expected:
        raise AssertionError(f"got {got!r}, expected {expected!r}")
    return got


def raised(run):
    """What `run` raises."""
    try:
        run()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")
