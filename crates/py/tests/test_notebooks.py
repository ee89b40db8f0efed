"""The notebooks run from their first cell to the last, in a kernel of Jupyter, and are kept without their output.

A notebook's metadata has the packages that it needs beside those of the tests, and why it takes long; such ones run with
SEEKLESS_LONG, as by `make soak`.
"""

import importlib.util
import json
import os
import sys
import unittest
from pathlib import Path

try:
    import ipykernel  # noqa: F401
    import nbformat
    import polars  # noqa: F401
    from nbclient import NotebookClient
except ImportError as missing:
    raise unittest.SkipTest(f"skipped: no {missing.name} here") from missing

NOTEBOOKS = sorted(Path("docs/notebooks").glob("*.ipynb"))


def why_not(notebook):
    """Return why a notebook does not run here, or nothing."""
    ours = notebook.metadata.get("seekless", {})
    missing = [name for name in ours.get("needs", []) if importlib.util.find_spec(name) is None]
    if missing:
        return f"no {missing[0]} here"
    return ours.get("long") if "SEEKLESS_LONG" not in os.environ else None


class Notebooks(unittest.TestCase):
    def test_every_cell_runs(self):
        self.assertTrue(NOTEBOOKS)
        for path in NOTEBOOKS:
            with self.subTest(path.name):
                notebook = nbformat.read(path, as_version=4)
                nbformat.validate(notebook)
                if why := why_not(notebook):
                    print(f"skipped: {path.name}: {why}", file=sys.stderr)
                    continue
                # An error in a cell is raised.
                NotebookClient(notebook, timeout=600, resources={"metadata": {"path": "."}}).execute()
                results = [
                    output
                    for cell in notebook.cells
                    if cell.cell_type == "code"
                    for output in cell.outputs
                    if output.output_type == "execute_result"
                ]
                self.assertTrue(any("text/html" in output.data for output in results))
                for output in results:
                    self.assertIn("text/plain", output.data)

    def test_no_output_is_kept(self):
        for path in NOTEBOOKS:
            for cell in json.loads(path.read_text("utf-8"))["cells"]:
                self.assertFalse(cell.get("outputs"), path)
                self.assertIsNone(cell.get("execution_count"), path)


if __name__ == "__main__":
    unittest.main()
