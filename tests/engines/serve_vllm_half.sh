#!/usr/bin/env bash
# serve_vllm_half.sh prefill|decode PORT SIDE_CHANNEL_PORT [flags]: one vLLM server of a prefill/decode pair (NIXL over
# shared memory and TCP), in the foreground. Each of the two has a side channel port of its own.
source "$(dirname "$0")/common.sh"
role=$1 port=$2 side_channel=$3
shift 3

case $role in
prefill) kv_role=kv_producer ;;
decode) kv_role=kv_consumer ;;
esac
export VLLM_NIXL_SIDE_CHANNEL_HOST=127.0.0.1 VLLM_NIXL_SIDE_CHANNEL_PORT=$side_channel
exec taskset -c "$(own_cpu "$role")" "$here/serve_vllm.sh" "$port" --kv-transfer-config \
  "{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"$kv_role\",\"kv_buffer_device\":\"cpu\"}" "$@"
