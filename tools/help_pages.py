#!/usr/bin/env python3
"""Manual pages and shell completions from the program's own --help:

    tools/help_pages.py PROGRAM SHARE_FOLDER

writes SHARE_FOLDER/man/man1/*.1, bash-completion/completions/fulmar, zsh/site-functions/_fulmar and
fish/vendor_completions.d/fulmar.fish.
"""
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Command:
    words: list  # ["fulmar", "serve"]
    summary: str = ""
    positionals: list = field(default_factory=list)  # (name, help)
    options: list = field(default_factory=list)  # ([flags], argument, help)
    children: list = field(default_factory=list)  # (name, help)
    footer: str = ""


SECTIONS = {"Positionals:": "positionals", "Subcommands:": "children"}  # others are groups of options


def entries(lines):
    """(left, help) of a section; a help text may begin on the line below and go on over several."""
    found = []
    for line in lines:
        if re.match(r"  \S", line):
            left, _, text = line.strip().partition("  ")
            found.append([left.strip(), text.strip()])
        elif found and line.strip():
            found[-1][1] = (found[-1][1] + " " + line.strip()).strip()
    return found


def read_command(program, words):
    text = subprocess.run([program, *words[1:], "--help"], capture_output=True, text=True, check=True).stdout
    lines = text.splitlines()
    command = Command(words, summary=lines[0])
    section, body, sections = None, [], {}
    for line in lines[1:]:
        if re.match(r"[A-Z].*:$", line) and section != "footer" and line != "Examples:":
            section = SECTIONS.get(line, "options")
            body = sections.setdefault(section, [])
        elif section and line and not line.startswith(" "):
            section, body = "footer", sections.setdefault("footer", [])
            body.append(line)
        elif not line.startswith("Usage:"):
            body.append(line)
    for left, text in entries(sections.get("options", [])):
        flags, _, argument = left.partition(" ")
        command.options.append((flags.split(","), argument, text))
    command.positionals = [tuple(entry) for entry in entries(sections.get("positionals", []))]
    command.children = [tuple(entry) for entry in entries(sections.get("children", []))]
    command.footer = "\n".join(sections.get("footer", [])).strip()
    return command


def all_commands(program):
    found, due = [], [["fulmar"]]
    while due:
        command = read_command(program, due.pop(0))
        found.append(command)
        due += [[*command.words, name] for name, _ in command.children]
    return found


# ---- manual pages

def roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)


def manual_page(command, version):
    name = "-".join(command.words)
    lines = [f'.TH {name.upper()} 1 "" "{version}" "User Commands"', ".SH NAME", f"{roff(name)} \\- {roff(command.summary)}",
             ".SH SYNOPSIS", f".B {' '.join(command.words)}", "[options] " + " ".join(roff(name.split()[0]) for name, _ in command.positionals)]
    for title, rows in (("ARGUMENTS", command.positionals), ("COMMANDS", command.children)):
        if rows:
            lines.append(f".SH {title}")
            for left, text in rows:
                lines += [".TP", f".B {roff(left)}", roff(text)]
    if command.options:
        lines.append(".SH OPTIONS")
        for flags, argument, text in command.options:
            lines += [".TP", ".B " + roff(", ".join(flags)) + (f" \\fI{roff(argument)}\\fR" if argument else ""), roff(text)]
    if command.footer:
        lines += [".SH NOTES", ".nf", roff(command.footer), ".fi"]
    return "\n".join(lines) + "\n"


# ---- completions

def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash(commands):
    cases = "\n".join(
        f"    {quoted(' '.join(command.words[1:]))}) words={quoted(' '.join([name for name, _ in command.children] + [flag for flags, _, _ in command.options for flag in flags]))} ;;"
        for command in commands)
    known = " ".join(sorted({word for command in commands for word in command.words[1:]}))
    return f"""# bash completion of fulmar, made from its --help.
_fulmar() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command="" words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case " {known} " in *" $word "*) command="${{command:+$command }}$word" ;; esac
  done
  case "$command" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $current != -* ]] && COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _fulmar fulmar
"""


def zsh(commands):
    return "#compdef fulmar\n# zsh completion of fulmar, made from its --help: that of bash.\nautoload -U +X bashcompinit && bashcompinit\n" + bash(commands) + '_bash_complete -o filenames -F _fulmar "$@"\n'


def fish(commands):
    lines = ["# fish completion of fulmar, made from its --help."]
    for command in commands:
        path = command.words[1:]
        seen = " and ".join(f"__fish_seen_subcommand_from {word}" for word in path) or "__fish_use_subcommand"
        for name, text in command.children:
            lines.append(f"complete -c fulmar -n {quoted(seen)} -f -a {name} -d {quoted(text)}")
        for flags, argument, text in command.options:
            spelled = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in flags)
            lines.append(f"complete -c fulmar -n {quoted(seen)} {spelled}{' -r' if argument else ''} -d {quoted(text)}")
    return "\n".join(lines) + "\n"


def main():
    program, share = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    commands = all_commands(program)
    files = {f"man/man1/{'-'.join(command.words)}.1": manual_page(command, version) for command in commands}
    files["bash-completion/completions/fulmar"] = bash(commands)
    files["zsh/site-functions/_fulmar"] = zsh(commands)
    files["fish/vendor_completions.d/fulmar.fish"] = fish(commands)
    for name, text in files.items():
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_text(text)
    print(f"{len(files)} files below {share}")


if __name__ == "__main__":
    main()
