"""Where setup.sh has put the data, and trainings keep their checkpoints: CANOPY_ENGINES_DIR/laboratory."""
import os
import pathlib

HOME = str(pathlib.Path(os.environ.get("CANOPY_ENGINES_DIR") or pathlib.Path.home() / ".cache/canopy-engines") / "laboratory")
