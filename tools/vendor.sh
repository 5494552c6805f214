#!/usr/bin/env bash
# Copies third-party browser files from npm packages into book/_static/vendor. They are committed; readers need no npm.
set -euo pipefail
out=$(cd "$(dirname "$0")/.." && pwd)/book/_static/vendor
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

npm install --prefix "$tmp" --ignore-scripts --no-audit --no-fund --silent mathjax@3.2.2
source=$tmp/node_modules/mathjax

rm -rf "$out/mathjax"
mkdir -p "$out/mathjax/input/tex" "$out/mathjax/output/chtml/fonts"
cp "$source/LICENSE" "$source/es5/tex-chtml.js" "$out/mathjax/"
cp -r "$source/es5/output/chtml/fonts/woff-v2" "$out/mathjax/output/chtml/fonts/"
# TeX extensions are loaded one by one, when a formula first uses them; the bundle of all of them never is.
cp -r "$source/es5/input/tex/extensions" "$out/mathjax/input/tex/"
rm "$out/mathjax/input/tex/extensions/all-packages.js"
printf 'mathjax 3.2.2, Apache-2.0 (mathjax/LICENSE), from the npm package of that name; rebuilt by `make vendor`.\n' > "$out/README"
du -sh "$out"/*
