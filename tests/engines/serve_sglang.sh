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
# For pairs: mooncake over TCP, and the CUDA library that it is linked against.
export PYTHONPATH=$PYTHONPATH:$engines_dir/mooncake-0.3.10.post2 MC_FORCE_TCP=1
export LD_LIBRARY_PATH=$engines_dir/mooncake-0.3.10.post2/nvidia/cuda_runtime/lib
# Without it an idle scheduler takes a core; in 0.5.10.post1 it makes every request of a pair a second longer.
sleep_on_idle=--sleep-on-idle
[ "$version" = 0.5.10.post1 ] && sleep_on_idle=
# float32: as vLLM beside it, so that texts can be compared.
exec nice -n "${NICE:-10}" "$engines_dir/sglang-base/bin/python" -m sglang.launch_server \
  --host 127.0.0.1 --port "$port" --model-path "$(basename "$model")" --dtype float32 --device cpu \
  --attention-backend torch_native --sampling-backend pytorch --disable-cuda-graph --mem-fraction-static 0.1 \
  --max-total-tokens 65536 --enable-metrics --enable-cache-report $sleep_on_idle "$@"
