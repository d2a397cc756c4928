"""The SQLite database: one writer thread, readers, migrations, blobs and search.

Nothing is imported here, so that `database_file` stays cheap for reading commands.
"""
