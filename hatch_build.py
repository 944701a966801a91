"""Hatchling's build hook: it compiles the C kernels into the package when a wheel, or an editable install, is made."""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):
    """Builds the kernels in place; without a C compiler the package is built without them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the kernels, and mark the wheel as one for this platform and any Python."""
        kernels = runpy.run_path(str(Path(self.root) / "src" / "regard" / "kernels" / "build.py"))
        if kernels["main"]() == 0:
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"
