#!/usr/bin/env bash
# Checks and measurements that need a GPU, part by part, on a machine that may have no compiler: build
# elsewhere, and name the folder of `gpu_suite`, `catenary` and `libcatenary.so` by BIN. Records and
# logs go into FOLDER, to be moved into bench/results/<gpu>/.
#
#   tests/gpu/measure.sh FOLDER PART...
#   parts: suite sanitizers repeats instructions bench int fp8 random random_int small gemm calibrate
#          layers forms quantised models training python
#   BIN      folder of the binaries (default: those of build/)
#   COMMIT   commit to record (default: git's)
#   SEED     seed of random chains and layers (default: the day)
#   LIMIT    seconds after which no part starts (default: none)
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# -lt 2 ]; then
  sed -n '2,/^set /p' "$0" | grep '^#' >&2
  exit 2
fi
folder=$(mkdir -p "$1" && cd "$1" && pwd)
shift
suite=${BIN:+$BIN/gpu_suite}
suite=${suite:-$root/build/tests/gpu/gpu_suite}
catenary=${BIN:+$BIN/catenary}
catenary=${catenary:-$root/build/tools/catenary}
library=${BIN:-$root/build}/libcatenary.so
commit=${COMMIT:-$(git -C "$root" rev-parse --short HEAD)}
seed=${SEED:-$(date +%Y%m%d)}
export CATENARY_CACHE_DIR=${CATENARY_CACHE_DIR:-$folder/cache} CATENARY_HELPER=${CATENARY_HELPER:-off}
export CATENARY_LIBRARY=$library PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
export CXX=${CXX:-/usr/bin/g++}

bench() {  # FILE OPTIONS...
  local out=$folder/$1
  shift
  "$catenary" bench --commit "$commit" --out "$out.json" "$@"
}

sweep() {  # FILE OPTIONS...
  local out=$1
  shift
  bench "$out" --seed "$seed" --sweep random "$@"
}

script() {  # NAME OPTIONS...
  local name=$1
  shift
  python3 "$root/bench/scripts/torch_$name.py" "$folder/$name.json" "$@"
}

sanitizers() {
  local tool status=0
  for tool in memcheck racecheck initcheck synccheck; do
    local options=()
    [ "$tool" = synccheck ] && options=(--num-cuda-barriers 65536)
    echo "== $tool"
    compute-sanitizer --tool "$tool" "${options[@]}" "$suite" --sanitize-set || status=$?
  done
  return "$status"
}

part() {
  case $1 in
    suite)
      "$suite" --configs 300 --big --capture --edges --errors --instructions --invariant --seed "$seed" \
        --commit "$commit" --record "$folder/gpu_suite.json" --cache "$CATENARY_CACHE_DIR" ;;
    sanitizers) sanitizers ;;
    repeats) "$suite" --named dequant --repeats 200 && "$suite" --named k-slices --repeats 200 ;;
    instructions) "$suite" --instructions ;;
    bench) bench bench ;;
    int) bench bench-int --cases 'int4*,int8*' ;;
    fp8) bench bench-fp8 --cases 'fp8*' ;;
    random) sweep random ;;
    random_int) sweep random-int --kinds int4,int8 --candidates 0 --count 60 ;;
    small) bench small --sweep small ;;
    gemm) bench gemm --sweep gemm ;;
    calibrate) bench calibrate --calibrate ;;
    layers)
      script layers --contenders eager,inductor,catenary-folded,catenary-algebraic,catenary-int4 ;;
    forms) script forms ;;
    quantised) script quantised ;;
    models) script models --models llama,qwen --layers 16 --workloads decode-64,prefill ;;
    training) python3 "$root/bench/scripts/torch_training.py" --commit "$commit" --out "$folder/training.json" ;;
    python)
      python3 -m pytest -q "$root/tests/python/pytorch" --record "$folder/python.json" &&
        python3 -m pytest -q "$root/tests/python" --ignore "$root/tests/python/pytorch" ;;
    *) echo "no part '$1'" >&2; return 2 ;;
  esac
}

status=0
for name in "$@"; do
  if [ -n "${LIMIT:-}" ] && [ "$SECONDS" -ge "$LIMIT" ]; then
    echo "$name: not started after $SECONDS s" | tee -a "$folder/parts.txt"
    status=1
    continue
  fi
  started=$SECONDS
  part "$name" >"$folder/$name.log" 2>&1
  code=$?
  echo "$name: exit $code, $((SECONDS - started)) s" | tee -a "$folder/parts.txt"
  [ "$code" = 0 ] || { status=1; tail -n 15 "$folder/$name.log"; }
done
exit "$status"
