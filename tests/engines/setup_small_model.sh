#!/usr/bin/env bash
# setup_small_model.sh: makes the model of 85 M parameters whose long prompts take seconds to read on a CPU (170 MB).
# Needs setup_vllm.sh before it, for Python's tokenizers.
source "$(dirname "$0")/common.sh"

make_model() {
  nice "$engines_dir/vllm-0.32.0/bin/python" "$here/../fixtures/make_tiny_qwen3.py" "$1" --size small \
    --tokenizer "$here/../fixtures/tiny-qwen3" >/dev/null
}
once small-qwen3 make_model
