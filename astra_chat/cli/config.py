"""`astra-chat config`: what the settings files say, and changing them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from astra_chat import settings
from astra_chat.cli.options import JsonOption
from astra_chat.cli.setting_defaults import note_unread
from astra_chat.options import settable
from astra_chat.settings import Setting
from astra_vgpu.ground.errors import BadInput

SCHEMA = "astra-chat/config/1"
app = typer.Typer(help="Show and change the settings: astra.toml.", no_args_is_help=False)
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The setting's name, as in `astra-chat config list`.")
]
ProjectOption = Annotated[
    bool, typer.Option("--project", help="Use the project's file instead of the user's.")
]


def register(main: typer.Typer) -> None:
    main.add_typer(app, name="config")


@app.callback(invoke_without_command=True)
def config(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show the settings in force, and which file sets them. The command line takes precedence
    over the project's astra.toml, and that over the user's own; Python and MCP read neither."""
    if context.invoked_subcommand is None:
        show(as_json)


@app.command("list", short_help="Show all settings, and where each is set.")
def show(as_json: JsonOption = False) -> None:
    """Show all settings, each with the file that sets it, or with its default."""
    found = settings.read_settings()
    if as_json:
        values = {name: _as_json(one) for name, one in found.items()}
        print(json.dumps({"schema": SCHEMA, "settings": values}, indent=2))
        return
    note_unread()
    for name, one in settable().items():
        value, where = (found[name].value, str(found[name].file)) if name in found else ("", "")
        usual = "" if name == "models" else one.option.default  # theirs depends on the task
        default = "" if usual in (None, "") else f"{usual} "
        print(f"{name:<9} {value}  ({where})" if where else f"{name:<9} {default}(default)")


@app.command()
def get(name: NameArgument) -> None:
    """Print one setting; exit with 1 if no file sets it."""
    if name not in settable():
        settings.from_text(name, "")
    found = settings.read_settings().get(name)
    if found is None:
        raise typer.Exit(1)
    print(found.value)


@app.command("set")
def put(
    name: NameArgument,
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE",
            help="The value, as you would give it to the option on the command line.",
        ),
    ],
    project: ProjectOption = False,
) -> None:
    """Set one setting, in the user's own file or the project's."""
    checked = settings.from_text(name, value)
    if name == "models":
        from astra_chat.models.spec import parse

        if value.partition(":")[0] not in ("record", "auto", "replay"):
            parse(value)
    if name == "memory" and value != "off":  # typed as from here, read as from the file's folder
        checked = str(Path(value).expanduser().absolute())
    file = _target(project)
    settings.write_setting(file, name, checked)
    print(f"{name} = {checked}  ({file})")


@app.command()
def unset(name: NameArgument, project: ProjectOption = False) -> None:
    """Remove one setting from the user's own file or the project's."""
    if name not in settable():
        settings.from_text(name, "")
    file = _target(project)
    if not file.is_file() or name not in settings.read_file(file):
        raise BadInput(f"{file} does not set {name}")
    settings.write_setting(file, name, None)


@app.command(short_help="List the configuration files that are read.")
def path() -> None:
    """List the configuration files that are read, in order; later files override earlier ones."""
    found = settings.project_file()
    for file in (settings.user_file(), *([found] if found else [])):
        print(f"{file}{'' if file.is_file() else '  (does not exist)'}")


def _target(project: bool) -> Path:
    if not project:
        return settings.user_file()
    return settings.project_file() or settings.project_folders()[-1] / settings.FILE


def _as_json(one: Setting) -> dict[str, Any]:
    return {"value": one.value, "file": str(one.file)}
