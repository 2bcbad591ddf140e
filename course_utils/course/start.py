"""Opens the course, for `python -m course_utils`: your own copies of the lessons, in JupyterLab."""

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from course_utils._files import INSTALLED, ROOT
from course_utils.course import copies, utf8_output

FIRST = "00_start.ipynb"
LAB = Path(__file__).resolve().parent / "lab"  # how JupyterLab looks, on this server alone
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
# from JupyterLab's list of files; links open them
HIDDEN = ("solutions", "my_predictions.json", "my_cases.json", "CLAUDE.md")


def main(arguments: list[str] | None = None) -> int:
    """The command line; ends when JupyterLab does."""
    parser = argparse.ArgumentParser(
        prog="python -m course_utils",
        description="Opens the course: your own copies of the lessons, in JupyterLab. What you "
        "write in them stays.",
        epilog="Every other option goes to JupyterLab: --no-browser, --port 9000, …",
        allow_abbrev=False,
    )
    where = f"where your copies are (default: {copies.FOLDER})"
    parser.add_argument("--folder", type=Path, help=where)
    options, for_jupyterlab = parser.parse_known_args(arguments)
    utf8_output()

    # The learner's copies.
    try:
        folder = (options.folder or copies.workplace()).resolve()
    except OSError as error:
        parser.error(str(error))
    try:
        left = copies.renew(folder)
    except OSError as error:
        refused = f"Your notebooks can't be kept in {folder} ({error.strerror})"
        parser.error(f"{refused}: name another one with --folder.")
    print(f"Your notebooks are in {folder}. No update changes what you write there.")
    for name in left:
        print(copies.why(folder, name))

    # JupyterLab.
    if importlib.util.find_spec("jupyterlab") is None:
        install = f"{sys.executable} -m pip install jupyterlab"
        parser.error(f"JupyterLab is not installed in this Python: {install}")
    proxies = leave_out_proxies()
    if proxies:
        names = " and ".join(proxies)
        taken = "it takes http://127.0.0.1:7890, say, and in NO_PROXY names of hosts"
        print(f"JupyterLab can't start with {names} as it is, and starts without: {taken}.")
    from jupyterlab.labapp import LabApp

    if not INSTALLED:
        # For its kernels: version 0.3, installed from a checkout with pip's -e, told Python of
        # course_utils alone, and git pull has brought course_lessons since.
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), others]))
    if "OMP_WAIT_POLICY" not in os.environ:
        # For its kernels, on Linux: a thread that waits gives up its core after microseconds, not
        # milliseconds. One lesson takes as long as before, and two at once hardly longer, where
        # they took twice as long (data/BENCHMARK.md).
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    is_root = getattr(os, "geteuid", lambda: 1)() == 0  # Windows has none
    if is_root and not any("allow" in one and "root" in one for one in for_jupyterlab):
        print("You are root, whom JupyterLab refuses without --allow-root at the end of the line.")
    print("JupyterLab opens in your browser; Ctrl-C, pressed twice here, stops it.", flush=True)
    LabApp.launch_instance([*settings(folder), *for_jupyterlab])
    return 0


def leave_out_proxies() -> list[str]:
    """Take out of the environment what JupyterLab's HTTP client can't be made with: its names."""
    import httpx

    proxies = {name: os.environ.pop(name) for name in [*os.environ] if name.lower() in PROXIES}
    refused = []
    for name, value in proxies.items():
        is_address = value and name.lower() != "no_proxy"
        if is_address and "://" not in value:
            value = f"http://{value}"  # as other programs read it
        os.environ[name] = value
        try:
            httpx.AsyncClient(verify=False)
            if is_address:
                httpx.AsyncHTTPTransport(verify=False, proxy=value)
        except Exception:  # of many kinds, and each would end the start
            refused.append(name)
            del os.environ[name]
    return refused


def settings(folder: Path) -> Iterator[str]:
    """JupyterLab's options for the course.

    They hold for this server; the user's own configuration is not touched.
    """
    from jupyter_server.services.contents.manager import ContentsManager

    # thirty lines would bury what is said above, and the address
    yield "--ServerApp.log_level=WARN"
    yield f"--ServerApp.root_dir={folder}"
    yield f"--LabApp.default_url=/lab/tree/{FIRST}"
    yield f"--LabApp.workspaces_dir={folder / '.workspaces'}"  # which tabs are open
    yield "--LabApp.custom_css=True"
    yield f"--ServerApp.tornado_settings=static_custom_path={LAB}"  # where custom.css is looked for
    # overrides.json: JupyterLab's first word is no question about its news
    yield f"--LabApp.app_settings_dir={LAB}"
    for pattern in [*(ContentsManager.hide_globs.default() or []), *HIDDEN]:
        yield f"--ContentsManager.hide_globs={pattern}"
