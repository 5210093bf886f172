#!/usr/bin/env bash
# Runs every fuzz target of the workspace for the time given, one after the
# other: `go test -fuzz` takes one target of one package.
set -euo pipefail
time=${1:?usage: fuzz.sh TIME}

found=0
failed=()
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# fuzz PACKAGE TARGET: go test fails now and then when its time is over while a
# worker is busy, with "context deadline exceeded" and no input to blame
# (golang/go#75804, mended in Go 1.27). A real failure writes the input that it
# failed on, or says what the process died of.
fuzz() {
  go test "$1" -run '^$' -fuzz "^$2\$" -fuzztime "$time" 2>&1 | tee "$output" && return
  grep -qx '    context deadline exceeded' "$output" &&
    ! grep -qE 'Failing input|panic:|fatal error:|exit status 2|hung or terminated' "$output"
}

while read -r package folder; do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$folder"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u); do
    echo "fuzz $package $target for $time"
    fuzz "$package" "$target" || failed+=("$package $target")
    found=$((found + 1))
  done
done < <(go list -f '{{.ImportPath}} {{.Dir}}' work)
echo "$found fuzz targets ran for $time each"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
