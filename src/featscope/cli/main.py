"""The command line. Results go to standard output, progress and messages to standard error; errors are one
line, exit 2.

Help and mistyped verbs come without torch: each verb imports what it needs when it runs.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from featscope import __version__
from featscope.cli import data, runs
from featscope.cli.bench import bench
from featscope.cli.check import check
from featscope.cli.console import out
from featscope.cli.doctor import doctor
from featscope.cli.explain import explain
from featscope.cli.figures import figures_
from featscope.cli.lab import lab
from featscope.cli.listing import list_
from featscope.cli.probe import probe_
from featscope.cli.report import report
from featscope.cli.run import run
from featscope.cli.show import show
from featscope.cli.sweep import sweep
from featscope.cli.verify import verify_
from featscope.core.errors import FeatscopeError, unknown

app = typer.Typer(
    name="featscope",
    help="Run the models of the papers, check their statements, and measure the same on your own networks.",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
VERBS: dict[str, Callable[..., None]] = {
    "list": list_,
    "show": show,
    "run": run,
    "sweep": sweep,
    "check": check,
    "explain": explain,
    "probe": probe_,
    "verify": verify_,
    "report": report,
    "figures": figures_,
    "lab": lab,
    "bench": bench,
    "doctor": doctor,
}
for name, verb in VERBS.items():
    app.command(name)(verb)
GROUPS = {"data": data.app, "runs": runs.app}
for name, group in GROUPS.items():
    app.add_typer(group, name=name)


def _version(show: bool) -> None:
    if show:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None: ...


def _complain(text: str) -> int:
    sys.stderr.write("error: " + " ".join(text.split()) + "\n")
    return 2


def _usage(error: Exception) -> str:
    """What is wrong with the arguments, and the help of the verb that was called."""
    text = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    called = getattr(getattr(error, "ctx", None), "command_path", "featscope")
    return f"{text}; see `{called} --help`"


#: what shells and typer take for "stopped by Ctrl-C"
INTERRUPTED = 130
# Typer carries its own copy of click or uses the installed one, by version: either way this is its
# ClickException.
UsageProblem: type[Exception] = typer.BadParameter.__bases__[0].__bases__[0]


def _require_verb(arguments: Sequence[str]) -> None:
    """Refuse a mistyped verb with the nearest ones."""
    known = [*VERBS, *GROUPS]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in known:
        raise unknown("verb", arguments[0], known)


def invoke(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    try:
        _require_verb(arguments)
        code = app(list(arguments) or ["--help"], prog_name="featscope", standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except UsageProblem as error:
        return _complain(_usage(error))
    except (typer.Abort, KeyboardInterrupt):
        _complain("interrupted; what was finished is kept, and the same command goes on from there")
        return INTERRUPTED
    except FeatscopeError as error:
        return _complain(str(error))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return _complain(
                "no space left on the disk; nothing finished is lost; free space and repeat the command"
            )
        return _complain(
            f"{error.strerror or error}: {error.filename or ''}; check the path and its permissions"
        )
    except (MemoryError, RuntimeError) as error:
        # torch reports a failed allocation as a RuntimeError
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        return _complain("out of memory; lower the sizes with --set or use --profile quick")


def main() -> None:
    """Entry point of the `featscope` command."""
    sys.exit(invoke(sys.argv[1:]))
