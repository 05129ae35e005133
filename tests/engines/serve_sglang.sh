#!/usr/bin/env bash
# serve_sglang.sh VERSION PORT [flags]: serves tiny-qwen3 with SGLang in the foreground; ready in 15 to 60 s.
# MODEL: another model folder.
source "$(dirname "$0")/common.sh"
version=$1 port=$2
shift 2

model=${MODEL:-$here/../fixtures/tiny-qwen3}
cd "$model/.." # a relative model name keeps machine paths off the wire
export PYTHONPATH=$here/shim:$engines_dir/sglang-$version
export SGLANG_USE_CPU_ENGINE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 CUDA_VISIBLE_DEVICES=
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
# float32: as vLLM beside it, so that texts can be compared. Without --sleep-on-idle an idle scheduler takes a core.
exec nice -n "${NICE:-10}" "$engines_dir/sglang-base/bin/python" -m sglang.launch_server \
  --host 127.0.0.1 --port "$port" --model-path "$(basename "$model")" --dtype float32 --device cpu \
  --attention-backend torch_native --sampling-backend pytorch --disable-cuda-graph --mem-fraction-static 0.05 \
  --max-total-tokens 65536 --enable-metrics --enable-cache-report --sleep-on-idle "$@"
