#!/usr/bin/env bash
# Compares the protos with those of another commit. That commit's archive gets
# the ignored .cache/googleapis copied in: `buf breaking --against .git` would
# not see that folder, which is a module of buf.yaml.
set -euo pipefail
base=${1:?usage: breaking.sh COMMIT}

for name in "$base" "origin/$base"; do
  commit=$(git rev-parse --quiet --verify "$name^{commit}") && break
done
if [ -z "${commit:-}" ] || ! git cat-file -e "$commit:buf.yaml" 2>/dev/null; then
  echo "breaking: nothing to compare with at $base"
  exit 0
fi

against=$(mktemp -d)
trap 'rm -rf "$against"' EXIT
git archive "$commit" buf.yaml proto | tar -x -C "$against"
mkdir -p "$against/.cache"
cp -R .cache/googleapis "$against/.cache/"
buf breaking --against "$against"
