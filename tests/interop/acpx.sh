#!/usr/bin/env bash
# A turn with a plan, an edit and a command through acpx (https://www.npmjs.com/package/acpx), allowed and denied.
# By hand: `tests/interop/acpx.sh`. acpx needs Node 22.13: $ACPX_NODE, else the one in PATH, else npm's package `node`
# if `ACPX_INSTALL=1` allows to fetch it (about 60 MB, under target/interop).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
work=$target/interop/acpx
mkdir -p "$work"

new_enough() { "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 13) ? 0 : 1)' 2>/dev/null; }
node=${ACPX_NODE:-node}
if ! new_enough "$node" && [ "${ACPX_INSTALL:-}" = 1 ]; then
  (cd "$work" && npm install --no-audit --no-fund --loglevel=error --prefix . node@24)
fi
new_enough "$node" || node=$work/node_modules/node/bin/node
if ! new_enough "$node"; then
  echo "skipped: acpx needs Node 22.13 or newer; name one in ACPX_NODE, or set ACPX_INSTALL=1 to fetch it from npm"
  exit 0
fi
PATH=$(dirname "$(command -v "$node")"):$PATH
(cd "$work" && npm install --no-audit --no-fund --loglevel=error --prefix . acpx@0.19.1)

binary=${HERMES_EDITOR_BIN:-}
[ -n "$binary" ] || { cargo build --locked --quiet --bin hermes-editor; binary=$target/debug/hermes-editor; }
binary=$(realpath "$binary")
home=$(mktemp -d)
model=
trap '[ -z "$model" ] || kill "$model" 2>/dev/null; rm -rf "$home"' EXIT
python3 "$here/model.py" "$home/port" &
model=$!
for _ in $(seq 200); do [ -s "$home/port" ] && break; sleep 0.1; done
port=$(cat "$home/port")

failed=0
# A turn with the given flags, in a folder of its own; NAME.jsonl gets the wire as acpx prints it.
turn() { # name, flags …
  local name=$1 code=0
  shift
  mkdir -p "$home/$name"
  echo 'hello world' >"$home/$name/greeting.txt"
  (cd "$home/$name" && timeout 120 env HOME="$home" HERMES_EDITOR_HOME="$home/data" OPENAI_API_KEY=interop-key \
    OPENAI_MODEL=interop OPENAI_BASE_URL="http://127.0.0.1:$port/v1" NO_PROXY=127.0.0.1 \
    node "$work/node_modules/acpx/dist/cli.js" --agent "$binary acp" "$@" --format json --json-strict exec "change the greeting") \
    >"$home/$name.jsonl" || code=$?
  echo "acpx $*: ended with $code"
  python3 - "$home/$name" "$name" <<'PY' || failed=1
import json, pathlib, sys

folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
lines = [json.loads(line) for line in folder.with_suffix(".jsonl").read_text().splitlines()]
updates = [m["params"]["update"] for m in lines if m.get("method") == "session/update"]
said = "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")
asked = [m for m in lines if m.get("method") == "session/request_permission"]
stops = [m["result"]["stopReason"] for m in lines if "stopReason" in (m.get("result") or {})]
ended = {u["toolCallId"]: u["status"] for u in updates if u.get("status") in ("completed", "failed")}
allowed = name.startswith("allowed")
# With --deny-all acpx refuses file reads too: the edit is not even asked about.
closed = name == "denied-files"
wanted = "edit done, command goodbye" if allowed else "edit failed, command rejected" if closed else "edit rejected, command rejected"
results = {
    "the questions": len(asked) == (1 if closed else 2),
    "the diff in the question": closed or any(c["type"] == "diff" for m in asked[:1] for c in m["params"]["toolCall"]["content"]),
    "four cards ended": len(ended) == 4,
    "the last word": wanted in said,
    "end_turn": stops == ["end_turn"],
    "the file": (folder / "greeting.txt").read_text() == ("goodbye world\n" if allowed else "hello world\n"),
    "the command": (folder / "ran.txt").exists() == allowed,
}
for what, ok in results.items():
    if not ok:
        print(f"  FAILED {what}")
print(f"acpx, {name}: {sum(results.values())} passed, {len(results) - sum(results.values())} failed; {len(lines)} lines, last word: {said[-60:]!r}")
sys.exit(not all(results.values()))
PY
}
turn allowed --approve-all
turn allowed-alone --approve-all --no-fs --no-terminal
turn denied --deny-all --no-fs
turn denied-files --deny-all
exit $failed
