#!/usr/bin/env bash
# Tries the images and compose files in Docker: starts them, uses them, kills what
# runs, and looks whether everything is there again. Docker, its engine and Compose
# are installed where they are missing (Debian's package; Compose as a Go module), so
# it is run as root then. An engine of its own is started, on files of its own, and
# stopped at the end with all that it ran.
#
#   deploy/try.sh          of bin/sluice and bin/etcd
#   SOURCE=1 deploy/try.sh of the source too, in an image made of this machine's Go
set -euo pipefail
cd "$(dirname "$0")/.."

COMPOSE_VERSION=v2.40.3
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/docker
WORK=$(mktemp -d)
export DOCKER_HOST=unix://$WORK/docker.sock DOCKER_CONFIG=$CACHE/config DOCKER_BUILDKIT=1 COMPOSE_ANSI=never
export BINARIES=prebuilt
engine=

say() { printf '\n=== %3d s: %s\n' $SECONDS "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

finish() {
  local status=$?
  if [ -n "$engine" ]; then
    docker ps -aq | xargs -r docker rm -f -v >/dev/null
    kill "$engine" && wait "$engine" || true
  fi
  [ $status = 0 ] || tail -n 20 "$WORK/dockerd.log" >&2 || true
  rm -rf "$WORK"
}
trap finish EXIT

install() {
  if ! command -v dockerd >/dev/null || ! command -v iptables >/dev/null; then
    say "install docker.io"
    apt-get update -q
    apt-get install -y -q --no-install-recommends docker.io iptables
  fi
  local plugin=$DOCKER_CONFIG/cli-plugins/docker-compose
  if [ "$(cat "$plugin.version" 2>/dev/null)" != $COMPOSE_VERSION ]; then
    say "build Compose $COMPOSE_VERSION"
    mkdir -p "$CACHE/compose" "$DOCKER_CONFIG/cli-plugins"
    (
      cd "$CACHE/compose"
      export GOWORK=off
      printf 'module compose\n\ngo 1.26\n' >go.mod
      go get -tool github.com/docker/compose/v2/cmd@$COMPOSE_VERSION
      CGO_ENABLED=0 go build -trimpath -o "$plugin" github.com/docker/compose/v2/cmd
    )
    echo $COMPOSE_VERSION >"$plugin.version"
  fi
}

start_engine() {
  say "start an engine"
  dockerd --data-root "$WORK/data" --exec-root "$WORK/exec" --pidfile "$WORK/pid" -H "$DOCKER_HOST" >"$WORK/dockerd.log" 2>&1 &
  engine=$!
  for _ in $(seq 100); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$engine" || fail "dockerd has ended"
    sleep 0.2
  done
  fail "dockerd does not answer"
}

# ask STATUS METHOD URL [BODY]: the body of an answer that has to have a status.
ask() {
  local answer
  answer=$(curl -sS --max-time 40 -w '\n%{http_code}' -X "$2" "$3" ${4:+-H 'content-type: application/json' -d "$4"})
  [ "${answer##*$'\n'}" = "$1" ] || fail "$2 $3: $answer"
  printf '%s' "${answer%$'\n'*}"
}

# until_healthy COMMAND...: until every container of a compose file is healthy.
until_healthy() {
  local states
  for _ in $(seq 300); do
    states=$("$@" ps -a --format '{{.Service}} {{.State}} {{.Health}}')
    if ! grep -qvE ' running (healthy)?$' <<<"$states" && [ "$(grep -c ' healthy$' <<<"$states")" = "$healthy" ]; then
      return
    fi
    sleep 0.2
  done
  "$@" logs --tail 5
  fail "not healthy: $states"
}

session() { # URL URL2
  ask 201 POST "$1/topics" '{"name":"orders","partitions":4}' >/dev/null
  ask 200 POST "$2/topics/orders/produce" '{"records":[{"key":"user-1","value":"checkout","partition":0},{"value":"b","partition":1},{"value":"c","partition":2},{"value":"d","partition":3}]}' >/dev/null
  ask 204 POST "$1/groups/analytics/commit" '{"topic":"orders","partition":0,"offset":1}' >/dev/null
  check "$2"
}

check() { # URL
  local partition
  for partition in 0 1 2 3; do
    ask 200 GET "$1/topics/orders/consume?partition=$partition&offset=0" | grep -q '"high_watermark":1}' || fail "partition $partition"
  done
  [ "$(ask 200 GET "$1/groups/analytics/offsets")" = '{"offsets":{"orders":{"0":1}}}' ] || fail "offsets"
}

one_server() {
  local compose=(docker compose) healthy=1
  say "one server ($BINARIES)"
  "${compose[@]}" up -d --build --quiet-pull
  until_healthy "${compose[@]}"
  session http://127.0.0.1:9000 http://127.0.0.1:9000
  say "kill it"
  "${compose[@]}" kill sluice
  "${compose[@]}" up -d
  until_healthy "${compose[@]}"
  check http://127.0.0.1:9000
  "${compose[@]}" stop
  [ "$("${compose[@]}" ps -a --format '{{.ExitCode}}')" = 0 ] || fail "it did not stop cleanly"
  "${compose[@]}" up -d
  until_healthy "${compose[@]}"
  check http://127.0.0.1:9000
  "${compose[@]}" down -v
}

cluster() {
  local compose=(docker compose -f deploy/cluster.yaml) healthy=8 service
  say "a cluster ($BINARIES)"
  "${compose[@]}" up -d --build
  until_healthy "${compose[@]}"
  session http://127.0.0.1:9000 http://127.0.0.1:9001
  for service in storage-1 storage-2 coordinator-1 coordinator-2 registry-1 gateway-2 etcd; do
    say "kill $service"
    "${compose[@]}" kill $service
    "${compose[@]}" up -d
    until_healthy "${compose[@]}"
    check http://127.0.0.1:9001
  done
  "${compose[@]}" stop
  if "${compose[@]}" ps -a --format '{{.Service}} {{.ExitCode}}' | grep -v '^etcd' | grep -v ' 0$'; then
    fail "some did not stop cleanly"
  fi
  "${compose[@]}" up -d
  until_healthy "${compose[@]}"
  check http://127.0.0.1:9000
  "${compose[@]}" down -v
}

# go_image makes an image golang:1.26 of this machine's Go, its downloaded modules
# and busybox, for where none can be fetched.
go_image() {
  command -v busybox >/dev/null || apt-get install -y -q --no-install-recommends busybox-static
  local root=$WORK/golang
  mkdir -p "$root/bin" "$root/tmp" "$root/root" "$root/usr/local"
  cp "$(command -v busybox)" "$root/bin/busybox"
  ln -s busybox "$root/bin/sh"
  ln -s busybox "$root/bin/mkdir"
  ln -s busybox "$root/bin/cp"
  mkdir -p "$root/etc/ssl/certs"
  cp bin/ca-certificates.crt "$root/etc/ssl/certs/"
  cp -a "$(go env GOROOT)" "$root/usr/local/go"
  cp -a "$(go env GOMODCACHE)/cache/download" "$root/modules"
  tar -C "$root" -c . | docker import \
    -c 'ENV PATH=/usr/local/go/bin:/bin GOPROXY=file:///modules GOFLAGS=-mod=readonly GONOSUMDB=* GOTOOLCHAIN=local' - golang:1.26 >/dev/null
  rm -rf "$root"
}

install
start_engine
one_server
cluster
if [ -n "${SOURCE:-}" ]; then
  say "an image with Go, to build from source"
  go_image
  BINARIES=source
  one_server
fi
say "all is well"
