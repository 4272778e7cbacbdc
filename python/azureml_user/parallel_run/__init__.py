"""What an entry script may import: `EntryScript`.

Importable in a plain interpreter too, so that a script can be tried without a fleet. The rest of the package
is the inside of a process and no interface.
"""

from azureml_user.parallel_run.entry_script import EntryScript

__all__ = ["EntryScript"]
