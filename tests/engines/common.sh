# Sourced by the scripts beside it: where engines are installed, and how.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engines_dir=${CANOPY_ENGINES_DIR:-$HOME/.cache/canopy-engines}
python=${CANOPY_ENGINES_PYTHON:-python3.11}

# once NAME COMMAND...: runs COMMAND (given a folder as its last argument) unless an earlier run has finished it.
# A half-finished folder is removed first, and two test runs that start at the same time install only once.
once() {
  local name=$1
  shift
  mkdir -p "$engines_dir"
  (
    flock 9
    if [ ! -e "$engines_dir/$name/.done" ]; then
      echo "installing $name into $engines_dir (minutes, gigabytes)" >&2
      rm -rf "${engines_dir:?}/$name"
      "$@" "$engines_dir/$name"
      touch "$engines_dir/$name/.done"
    fi
  ) 9>"$engines_dir/.$name.lock"
}

# The CPU build of torch, which needs a package index that has it (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS, see README.md).
torch_cpu="torch==2.13.0+cpu"

# own_cpu prefill|decode: the CPU for one half of a pair. Left to itself, the kernel of a virtual machine with two CPUs
# was seen to run both halves on one of them, the prefill half not at all for as long as the decode half had work.
own_cpu() {
  local allowed
  allowed=$(taskset -cp $$ | sed 's/.*: //') # such as 0,1 or 0-15
  case $1 in
  prefill) echo "${allowed%%[,-]*}" ;;
  decode) echo "${allowed##*[,-]}" ;;
  esac
}
