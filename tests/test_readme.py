"""The README's example is a program that runs and prints what its comment says."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_example_prints_what_its_last_comment_says(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == program.rpartition("# ")[2].strip()
