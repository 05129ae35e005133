#!/usr/bin/env bash
# serve_sglang_half.sh VERSION prefill|decode PORT REGISTRY_PORT [flags]: one server of a prefill/decode pair, in the
# foreground. REGISTRY_PORT is the prefill server's bootstrap_port.
source "$(dirname "$0")/common.sh"
version=$1 role=$2 port=$3 registry=$4
shift 4

case $version in
0.5.10.post1) backend=mooncake own=() ;;
# The default keeps retracted requests in page-locked memory, which needs a GPU.
*) backend=mooncake_tcp own=(--disaggregation-decode-retraction-backup cpu_tensor) ;;
esac
case $role in
prefill) half=(--disaggregation-bootstrap-port "$registry") ;;
decode) half=("${own[@]}") ;;
esac
# Tests of failures should not take the default's five minutes.
export SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT=30 SGLANG_DISAGGREGATION_WAITING_TIMEOUT=30
exec taskset -c "$(own_cpu "$role")" "$here/serve_sglang.sh" "$version" "$port" --disaggregation-mode "$role" \
  --disaggregation-transfer-backend "$backend" "${half[@]}" "$@"
