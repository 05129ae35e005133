#!/usr/bin/env bash
# setup_peers.sh: installs the routers that `deno task bench:peers` measures Canopy against (300 MB).
source "$(dirname "$0")/common.sh"

install_peers() {
  mkdir -p "$1"
  for peer in sglang-router==0.3.2 smg==1.13.0; do
    "$python" -m venv "$1/${peer/==/-}"
    "$1/${peer/==/-}/bin/pip" install --quiet --disable-pip-version-check "$peer"
  done
}
once peers install_peers
