"""Switch off the runtime checks of shapes and types in the microbenchmarks: users do not have these checks either."""

from pathlib import Path

import jaxtyping

jaxtyping.config.update("jaxtyping_disable", True)

collect_ignore = [path.name for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")]
