"""Work on files: worktrees of myses, the workbench server over one folder, and the merge of what they did.

Nothing of it is loaded where no mysis works on files. Git is the installed program.
"""
