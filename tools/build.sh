#!/usr/bin/env bash
# Builds the book into _build/html; --fresh begins without the pages of earlier builds, but with cached outputs.
# Warnings are errors. _build/.built exists exactly when the last build was clean.
set -euo pipefail
cd "$(dirname "$0")/.."
log=_build/build.log
mkdir -p _build

exec 9> _build/.lock  # two builds at once would spoil each other's pages
if command -v flock > /dev/null; then flock 9; fi

rm -f _build/.built
if [ "${1:-}" = --fresh ]; then rm -rf _build/html _build/.doctrees; fi

# Shows which notebook runs; the rest of the log matters only when the build fails.
if PYTHONUNBUFFERED=1 .venv/bin/jupyter-book build . -W --keep-going -n --builder html 2>&1 \
    | sed -u 's/\x1b\[[0-9;]*m//g' | tee "$log" | sed -un \
        -e 's#^\(book/[^:]*\): Executing notebook using a kernel of its own took \(.*\)#       ran \1 in \2#p' \
        -e 's#.*/\(book/[^:]*\): Executing notebook using.*#       running \1#p'; then
  touch _build/.built
else
  rm -rf _build/.doctrees  # left in place they would hide this build's warnings from the next one
  grep -vE '^(reading|writing|copying|Copying|preparing|loading|building|dumping|pickling|looking|checking|generating|myst|updating|Running|Using|Source|Config|Output|sphinx|\[etoc\]|done)' "$log" >&2 || true
  echo "The build failed; the whole log is in $log." >&2
  exit 1
fi
