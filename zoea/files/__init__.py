"""Work on files: worktrees of myses, the workbench server of a folder, and merges.

Nothing of it is loaded where no mysis works on files. Git is the installed program.
"""
