"""Runs an import with the workspace locked: JSON lines files or a Zoea Nova database.

Each file, or each mysis of Zoea Nova, is one op.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from zoea.model.errors import SwarmFull, UsageError
from zoea.settings.layers import LoadedSettings
from zoea.settings.paths import Places, is_folder
from zoea.transfer import jsonl_import, nova_database
from zoea.transfer.held_workspace import Workspace, held_workspace
from zoea.transfer.nova_import import NovaImport, NovaOptions, nova_uid
from zoea.transfer.report import ImportReport, Progress


async def import_files(places: Places, paths: Sequence[Path], progress: Progress) -> list[ImportReport]:
    """Import files of `zoea export --format jsonl`, or all such files of a folder.

    Raises:
        UsageError: if a file is invalid; the files before it are imported.
        WorkspaceHeld, SettingsError, StoreError, SwarmFull: see `held_workspace` and `import_file`.
    """
    files = [file for path in paths for file in _files(path)]
    reports = []
    async with held_workspace(places) as workspace:
        settings = workspace.loaded.settings
        for file in files:
            op = partial(jsonl_import.import_file, file=file, settings=settings, progress=progress)
            reports.append(await workspace.store.write(op))
    return reports


async def import_nova(
    places: Places, path: Path, progress: Progress, *, template: str = "", provider: str = "", model: str = ""
) -> ImportReport:
    """Import every mysis of a Zoea Nova database that is not in the workspace.

    Args:
        template: For myses without their own prompt; empty means the default one.
        provider, model: For all myses; empty keeps their own if it is configured here.

    Raises:
        UsageError, StoreForeign: if the file is invalid; nothing is imported then.
        SwarmFull: if the limit of living myses is exceeded; nothing is imported then.
        WorkspaceHeld, SettingsError, StoreError: see `held_workspace`.
    """
    with nova_database.open_nova(path) as database:
        async with held_workspace(places) as workspace:
            wanted = _wanted(workspace.loaded, template, provider, model)
            everyone = database.myses()
            await _check_room(workspace, [nova_uid(mysis) for mysis in everyone])
            report = ImportReport(database.description)
            for mysis in everyone:
                reports = await workspace.store.write(NovaImport(database, mysis, everyone, wanted, progress))
                if isinstance(reports, str):
                    report.skipped[mysis.name] = f"it was imported already, as {reports}"
                else:
                    report.arrivals.append(reports)
            return report


def _files(path: Path) -> list[Path]:
    if not is_folder(path):
        return [path]
    files = sorted(path.glob("*.jsonl"))
    if not files:
        raise UsageError(
            f"there is no .jsonl file in {path}", hint="`zoea export --all --format jsonl -o DIR/` writes some."
        )
    return files


def _wanted(loaded: LoadedSettings, template: str, provider: str, model: str) -> NovaOptions:
    settings = loaded.settings
    chosen = loaded.templates.get(template or settings.swarm.default_template)
    name = settings.provider_name(provider or chosen.provider)
    own = settings.provider_named(name)
    if own is None:
        raise UsageError(f"there is no provider {name!r}", hint="`zoea providers` lists those that are configured.")
    return NovaOptions(settings, chosen, name, model or chosen.model or own.model, is_forced=bool(provider))


async def _check_room(workspace: Workspace, uids: list[str]) -> None:
    """Raise SwarmFull before anything is written if the limit of living myses is exceeded."""
    most = workspace.loaded.settings.swarm.max_myses
    rows = await workspace.store.read("SELECT uid FROM mysis WHERE deleted_at IS NULL")
    living = {row["uid"] for row in rows}
    archived = {row["uid"] for row in await workspace.store.read("SELECT uid FROM mysis WHERE deleted_at IS NOT NULL")}
    coming = [uid for uid in uids if uid not in living and uid not in archived]
    if len(living) + len(coming) > most:
        raise SwarmFull(
            f"max myses ({most}) reached: {len(living)} live here, {len(coming)} would come",
            hint="Raise swarm.max_myses in the settings, or delete some, and import again.",
        )
