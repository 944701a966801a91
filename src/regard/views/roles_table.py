"""Write the roles of attention heads as a table (CSV or Parquet).

The row of a head says how much the head attends to the previous token, to the first token, and to other kinds of keys.
"""

import csv
import io
from pathlib import Path

from regard.errors import InputError, import_extra
from regard.tracing.roles import Roles
from regard.views.output_file import check_writable, write_output

ENDINGS = (".csv", ".parquet")


def check_table_path(path: Path) -> Path:
    """Check that a table can be written at a path, and return the path.

    Raises:
        InputError: `path` does not end in .csv or .parquet, pyarrow is missing for .parquet, or the file cannot be
            written.
    """
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"cannot tell what kind of table {path} is; its name must end in .csv or .parquet.")
    if path.suffix.lower() == ".parquet":
        import_extra("pyarrow.parquet", "huggingface,scan")
    return check_writable(path)


def write_table(roles: Roles, path: Path) -> Path:
    """Write a table with a row for each head and a column for each role, and return the path.

    The ending of the path, .csv or .parquet, determines the format.
    """
    if path.suffix.lower() == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(roles.columns)
        writer.writerows(zip(*roles.columns.values(), strict=True))
        return write_output(path, text.getvalue())
    arrow = import_extra("pyarrow", "huggingface,scan")
    parquet, content = import_extra("pyarrow.parquet", "huggingface,scan"), io.BytesIO()
    parquet.write_table(arrow.table(roles.columns), content)
    return write_output(path, content.getvalue())
