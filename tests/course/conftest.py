"""The commands that README.md and docs/TEACHING.md print, as tests run them, and the
JupyterLab of one.
"""

import re
from collections.abc import Callable

import pytest
from lab import browser, memory, open_notebook, server  # noqa: F401

from course_utils._files import ROOT


@pytest.fixture(scope="session")
def commands() -> Callable[[str, str], str]:
    """`commands(document, name)`: the shell block below `<!-- name command -->` or `<!-- name
    commands -->`.
    """

    def block(document: str, name: str) -> str:
        text = (ROOT / document).read_text(encoding="utf-8")
        (found,) = re.findall(rf"<!-- {name} commands? -->\n```bash\n(.*?)\n```", text, re.DOTALL)
        return found

    return block
