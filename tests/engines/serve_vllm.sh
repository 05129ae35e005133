#!/usr/bin/env bash
# serve_vllm.sh PORT [flags]: serves tiny-qwen3 with vLLM 0.32.0 in the foreground; ready in 15 to 45 s.
# MODEL: another model folder.
source "$(dirname "$0")/common.sh"
port=$1
shift

model=${MODEL:-$here/../fixtures/tiny-qwen3}
cd "$model/.." # a relative model name keeps machine paths off the wire
export PYTHONPATH=$engines_dir/nixl-1.5.1 # for pairs
export VLLM_SERVER_DEV_MODE=1 # /reset_prefix_cache
export VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES=
export VLLM_CPU_KVCACHE_SPACE=1 # GiB at most; the number of blocks below is what counts
# One process without helpers: with them, idle workers spin on shared memory and starve the test on a small machine.
export VLLM_ENABLE_V1_MULTIPROCESSING=0 OMP_NUM_THREADS=1
export TORCHDYNAMO_DISABLE=1 # else the first request with logprobs compiles for 5 to 15 s and stalls all others
# The package's own `vllm` command fails: it looks up a distribution of that name. Blocks must be multiples of 32.
# float32: with bfloat16 the greedy text depends on what was cached.
exec nice -n "${NICE:-10}" "$engines_dir/vllm-0.32.0/bin/python" -m vllm.entrypoints.openai.api_server \
  --host 127.0.0.1 --port "$port" --model "$(basename "$model")" --dtype float32 --max-model-len 32768 --enforce-eager \
  --block-size 32 --num-gpu-blocks-override 2048 --enable-prefix-caching --enable-prompt-tokens-details \
  --distributed-executor-backend uni "$@"
