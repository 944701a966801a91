"""How much heads attend to each kind of key, such as the next token, as a CSV or Parquet table: a row for each head."""

import csv
import io
from pathlib import Path

from regard.errors import InputError, import_extra
from regard.tracing.roles import Roles
from regard.views.output_file import check_writable, write_output

ENDINGS = (".csv", ".parquet")


def check_table_path(path: Path) -> Path:
    """Return `path`; raise InputError if it does not end in .csv or .parquet, or if such a table cannot be written
    there.
    """
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"cannot tell what kind of table {path} is; its name must end in .csv or .parquet.")
    if path.suffix.lower() == ".parquet":
        import_extra("pyarrow.parquet", extra="huggingface,scan")
    return check_writable(path)


def write_table(roles: Roles, path: Path) -> Path:
    if path.suffix.lower() == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(roles.columns)
        writer.writerows(zip(*roles.columns.values(), strict=True))
        return write_output(path, text.getvalue())
    arrow = import_extra("pyarrow", extra="huggingface,scan")
    parquet, content = import_extra("pyarrow.parquet", extra="huggingface,scan"), io.BytesIO()
    parquet.write_table(arrow.table(roles.columns), content)
    return write_output(path, content.getvalue())
