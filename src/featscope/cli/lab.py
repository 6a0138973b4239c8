"""`featscope lab`: the page on which the theory moves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from featscope.cli.console import announce, say, tell

#: where the lab is unless told otherwise
PORT = 8765


def lab(
    export: Annotated[
        Path | None, typer.Option("--export", help="write the page without its server to this file, and end")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="port on 127.0.0.1; 0 takes a free one")] = PORT,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="open a browser")] = True,
) -> None:
    """Open a page in which the theory moves: sliders, stories, and full descent beside the prediction."""
    announce("making the lab's page")
    if export is not None:
        from featscope.lab.page import write_lab

        write_lab(export)
        say(f"{export}: {export.stat().st_size / 1e3:.0f} kB, one file, works offline")
        return
    _serve(port, browser)


def _serve(port: int, browser: bool) -> None:
    from featscope.lab.server import HOST, bound_socket, require_server, serve

    require_server()
    with bound_socket(port) as sock:
        address = f"http://{HOST}:{sock.getsockname()[1]}/"
        tell(address)
        say("the lab answers this machine only; Ctrl-C ends it")
        if browser:
            import webbrowser

            webbrowser.open(address)
        serve(sock)
