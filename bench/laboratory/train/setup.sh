#!/usr/bin/env bash
# setup.sh: installs what the laboratory's models are trained with, writes the questions, and brings the
# tokenizer.
# Everything goes into ~/.cache/canopy-engines/laboratory (CANOPY_ENGINES_DIR in place of ~/.cache/canopy-engines).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${CANOPY_ENGINES_DIR:-$HOME/.cache/canopy-engines}/laboratory
python=${CANOPY_ENGINES_PYTHON:-python3.11}

mkdir -p "$home"
if [ ! -e "$home/venv/.done" ]; then
  "$python" -m venv "$home/venv"
  nice "$home/venv/bin/pip" install -q -r "$here/requirements.txt"
  touch "$home/venv/.done"
fi
deno run -A "$here/write_data.ts" "$home/data"
# The shipped tokenizer, since all checkpoints rest on it; tokenizer.py makes one from nothing.
mkdir -p "$home/tokenizer"
cp "$here/../../../models/laboratory/s/"tokenizer*.json "$home/tokenizer/"
