#!/usr/bin/env bash
# setup_clients.sh: installs the Python clients that tests/e2e/examples_test.ts runs against Canopy (0.9 GB).
source "$(dirname "$0")/common.sh"

install_clients() {
  "$python" -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements-clients.txt"
}
once clients install_clients
