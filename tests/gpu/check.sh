#!/usr/bin/env bash
# The checks that need a GPU with ncu: capture steps, then hold their counters against theory.
#
#   tests/gpu/check.sh OUT        captures into OUT (kept small), then asserts; under 8 minutes
#   tests/gpu/check.sh --dry-run  prints every command and runs none
set -euo pipefail
cd "$(dirname "$0")/../.."

DRY=0
OUT=${1:-}
if [ "$OUT" = --dry-run ]; then
  DRY=1
  OUT=OUT
fi
if [ -z "$OUT" ]; then
  echo "usage: tests/gpu/check.sh OUT | --dry-run" >&2
  exit 2
fi
PYTHON=${PYTHON:-python3}

run() {
  echo "+ $*"
  [ "$DRY" = 1 ] || "$@"
}

profile() {
  run "$PYTHON" -m rooflens "$@"
}

[ "$DRY" = 1 ] || mkdir -p "$OUT"
profile doctor
for attention in eager sdpa; do
  for layers in 2 auto; do
    common="--device cuda --attention $attention --layers $layers --evidence counters --force"
    # shellcheck disable=SC2086
    {
      profile run decode --batch 1 $common -o "$OUT/decode-b1-$attention-$layers"
      profile run decode --batch 32 $common -o "$OUT/decode-b32-$attention-$layers"
      profile run prefill --prompt 512 $common -o "$OUT/prefill-512-$attention-$layers"
      profile run prefill --prompt 2048 $common -o "$OUT/prefill-2048-$attention-$layers"
    }
  done
done
run "$PYTHON" tests/gpu/assert_captures.py "$OUT"
# Reports of ncu are large; numbers and pages are what is brought back.
run find "$OUT" -name '*.ncu-rep' -size +2M -delete
