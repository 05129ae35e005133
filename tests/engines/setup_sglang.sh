#!/usr/bin/env bash
# setup_sglang.sh 0.5.10.post1|0.5.18|0.5.23: installs SGLang for CPUs without AMX, 2.3 GB once and 0.4 GB a version,
# two minutes. Prefill/decode pairs need Debian's libibverbs1 librdmacm1 libnuma1; they are installed where missing.
#
# SGLang publishes no such package, so its own Python code runs here as it is, beside a CPU torch. What it imports
# but never calls on a CPU is supplied by shim/sitecustomize.py and by the torchvision line below.
source "$(dirname "$0")/common.sh"

version=${1:-}
case $version in
0.5.10.post1) own="transformers==5.3.0 tokenizers==0.22.2 huggingface-hub==1.7.2 xgrammar==0.1.32 llguidance==0.7.30" ;;
0.5.18) own="transformers==5.12.1 tokenizers==0.22.2 huggingface-hub==1.22.0 xgrammar==0.2.1 llguidance==1.7.6" ;;
0.5.23) own="transformers==5.19.0 tokenizers==0.23.2 huggingface-hub==1.33.0 xgrammar==0.2.7 llguidance==1.7.6 openai==2.8.0" ;;
*) echo "setup_sglang.sh: no recipe for SGLang '$version', give 0.5.10.post1, 0.5.18 or 0.5.23" >&2; exit 2 ;;
esac

# What all versions share: one environment with torch and the libraries that SGLang does not pin tightly.
install_base() {
  "$python" -m venv "$1"
  nice "$1/bin/pip" install -q -r "$here/requirements-sglang.txt" "$torch_cpu" ||
    # no CPU build to be found: gigabytes of CUDA packages come along
    nice "$1/bin/pip" install -q -r "$here/requirements-sglang.txt" "${torch_cpu%+cpu}"
  nice "$1/bin/pip" install -q --no-deps triton==3.7.1 torchvision==0.28.0
  # SGLang's transformers insist on torchvision, whose compiled part needs CUDA. Only its Python part is used, so
  # the operators that it registers at import are declared beforehand.
  local torchvision
  torchvision=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torchvision
  cat >"$torchvision/_cpu_ops.py" <<'PY'
import torch
_l = torch.library.Library("torchvision", "DEF")
_l.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_l.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_l.define("roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, int sampling_ratio, bool aligned) -> Tensor")
PY
  sed -i '1i from . import _cpu_ops' "$torchvision/__init__.py"
}

# One version: SGLang and the libraries it pins exactly, in a folder that serve_sglang.sh puts first on PYTHONPATH.
install_version() {
  # shellcheck disable=SC2086 # a list of packages
  nice "$engines_dir/sglang-base/bin/pip" install -q --no-warn-conflicts --no-deps --target "$1" "sglang==$version" $own \
    compressed-tensors==0.18.0 outlines==0.1.11 outlines_core==0.1.26 lark==1.3.1 diskcache==5.6.3 \
    nest_asyncio==1.6.0 pycountry==26.2.16 airportsdata==20260905
}

# What moves the KV cache from a prefill server to a decode server. It is linked against CUDA's runtime library (of
# which it calls nothing over TCP) and against RDMA's user-space libraries, which only the system can bring.
install_mooncake() {
  nice "$engines_dir/sglang-base/bin/pip" install -q --no-warn-conflicts --no-deps --target "$1" \
    mooncake-transfer-engine==0.3.10.post2 nvidia-cuda-runtime-cu12==12.9.79
  local packages=(libibverbs1 librdmacm1 libnuma1)
  dpkg -s "${packages[@]}" >/dev/null 2>&1 && return
  local root=()
  [ "$(id -u)" = 0 ] || root=(sudo)
  "${root[@]}" apt-get install -q -y --no-install-recommends "${packages[@]}" >&2 || {
    echo "setup_sglang.sh: pairs of servers need the system packages ${packages[*]}, install them and run this again" >&2
    return 1
  }
}

once sglang-base install_base
once mooncake-0.3.10.post2 install_mooncake
once "sglang-$version" install_version
