#!/usr/bin/env bash
# run.sh [options of lm_eval]: grades a tree's answers to the questions beside this file. pip install 'lm_eval[api]'
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export OPENAI_API_KEY=${CANOPY_API_KEY:-none}
lm_eval --model local-chat-completions --apply_chat_template --include_path . --tasks canopy_sums \
  --model_args "model=${CANOPY_MODEL:-moa},base_url=${CANOPY_URL:-http://127.0.0.1:8000}/v1/chat/completions,num_concurrent=2,timeout=3600" \
  "$@"
