#!/usr/bin/env bash
# Runs every fuzz target of the workspace for the time given, one after the
# other: `go test -fuzz` takes one target of one package.
set -euo pipefail
time=${1:?usage: fuzz.sh TIME}

found=0
failed=()
while read -r package folder; do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$folder"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u); do
    echo "fuzz $package $target for $time"
    go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" || failed+=("$package $target")
    found=$((found + 1))
  done
done < <(go list -f '{{.ImportPath}} {{.Dir}}' work)
echo "$found fuzz targets ran for $time each"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
