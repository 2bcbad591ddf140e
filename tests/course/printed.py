"""The commands that README.md and notebooks/TEACHING.md print, so that tests run them as they stand there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def commands(document: str, name: str) -> str:
    """The shell block below the comment `<!-- NAME command -->` or `<!-- NAME commands -->`."""
    text = (ROOT / document).read_text(encoding="utf-8")
    (block,) = re.findall(rf"<!-- {name} commands? -->\n```bash\n(.*?)\n```", text, re.DOTALL)
    return block
