"""The program's commands as its own help tells them."""
import re
import subprocess


def help_of(program, folder, *words):
    return subprocess.run([program, *words, "--help"], cwd=folder, capture_output=True, text=True, timeout=60).stdout


def commands(program, folder, above=()):
    """Every command that has no others below it, as the words that name it."""
    text = help_of(program, folder, *above)
    names = re.findall(r"^  ([a-z]\S*)", text.partition("Subcommands:")[2].partition("\n\n")[0], re.MULTILINE) if len(above) < 2 else []
    return [command for name in names for command in commands(program, folder, (*above, name))] if names else [above]
