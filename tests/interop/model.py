"""A scripted model on loopback: Chat Completions, streamed, for the clients of this folder.

`model.py PORTFILE` listens on a free port and writes its number to PORTFILE. What it answers follows from the last
prompt alone and from the results after it, so it keeps no state and serves all clients at once:

    change …   plan, read greeting.txt, edit it, run a command, then a last word that tells what the model saw
    wait …     a first word, then nothing until the request is dropped (a cancel in a stream)
    sleep …    a command that takes a minute (a cancel in a question, or in a command)

Every request is checked; what is wrong with one is answered as a 400, and kept. GET /verdict tells
{"requests": N, "faults": […]}.
"""

import http.server
import json
import os
import sys
import threading

NEEDED = {"read", "edit", "terminal", "todo"}
COMMAND = "cat greeting.txt && touch ran.txt && echo command-output"
lock = threading.Lock()
verdict = {"requests": 0, "faults": []}


def text_of(content):
    """The text of a message's content, in both forms that the API has."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


def check(body):
    """What is wrong with a request, or None."""
    messages = body.get("messages") or []
    if body.get("model") != "interop" or body.get("stream") is not True:
        return "not a streamed request for the model `interop`"
    if not messages or messages[0].get("role") not in ("system", "developer"):
        return "the first message is no system prompt"
    if any(m.get("role") in ("system", "developer") for m in messages[1:]):
        return "a second system prompt"
    names = [tool["function"]["name"] for tool in body.get("tools") or []]
    if not NEEDED <= set(names) or len(names) != len(set(names)):
        return f"the tools are {names}"
    for tool in body["tools"]:
        if tool["function"]["parameters"].get("type") != "object":
            return f"{tool['function']['name']}: its parameters are no object"
    waiting = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"a result for {message.get('tool_call_id')}, which no open call has"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"no result for {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls") or []]
        for call in message.get("tool_calls") or []:
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return f"the arguments of {call['id']} are no object"
    return f"no result for {waiting}" if waiting else None


def call(index, step, name, arguments):
    return {"index": index, "id": f"call_{step}_{index}", "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)}}


def answer(messages):
    """The deltas of the reply and its finish reason; None for a reply that hangs after its first word."""
    last = max(i for i, m in enumerate(messages) if m["role"] == "user")
    prompt = text_of(messages[last]["content"]).split()[0]
    results = [text_of(m["content"]) for m in messages[last:] if m["role"] == "tool"]
    step = len(results)
    if prompt == "wait":
        return [{"content": "First word."}], None
    if prompt == "sleep":
        if step:
            return [{"content": "The command ended."}], "stop"
        return [{"content": "A long command."}, {"tool_calls": [call(0, last, "terminal", {"command": "touch slept.txt && sleep 60"})]}], "tool_calls"
    if prompt != "change":
        return [{"content": "Nothing to do."}], "stop"
    if step == 0:
        plan = [{"content": "change the greeting", "status": "in_progress"}, {"content": "look at it", "status": "pending"}]
        return [{"reasoning_content": "The file first."}, {"content": "I read "}, {"content": "it."},
                {"tool_calls": [call(0, last, "todo", {"todos": plan})]},
                {"tool_calls": [call(1, last, "read", {"path": "greeting.txt"})]}], "tool_calls"
    if step == 2:
        edit = call(0, last + 2, "edit", {"path": "greeting.txt", "old_string": "hello", "new_string": "goodbye"})
        # Arguments come in pieces, as they do from real servers.
        whole = edit["function"]["arguments"]
        edit["function"]["arguments"] = whole[:9]
        rest = {"index": 0, "function": {"arguments": whole[9:]}}
        return [{"tool_calls": [edit]}, {"tool_calls": [rest]}], "tool_calls"
    if step == 3:
        return [{"tool_calls": [call(0, last + 3, "terminal", {"command": COMMAND})]}], "tool_calls"
    buffer = "unsaved" if "unsaved" in results[1] else "saved"
    edited = "rejected" if "rejected" in results[2] else "done" if "goodbye" in results[2] else "failed"
    ran = "rejected" if "rejected" in results[3] else "goodbye" if "goodbye" in results[3] else "hello"
    return [{"content": f"read {buffer}, edit {edited}, "}, {"content": f"command {ran}. Grüße 👋"}], "stop"


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/verdict":
            with lock:
                return self.reply(200, verdict)
        self.reply(200, {"object": "list", "data": [{"id": "interop", "object": "model"}]})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"]))
        fault, deltas, finish = None, [], None
        try:
            body = json.loads(raw)
            fault = check(body) if self.path.endswith("/chat/completions") else f"a request to {self.path}"
            if self.headers.get("authorization") != "Bearer interop-key":
                fault = "no key in the Authorization header"
            if not fault:
                deltas, finish = answer(body["messages"])
        except Exception as e:  # whatever a request breaks here is its fault
            fault = f"{type(e).__name__}: {e}"
        with lock:
            verdict["requests"] += 1
            if fault:
                verdict["faults"].append(fault)
        if fault:
            return self.reply(400, {"error": {"message": fault}})
        self.stream(deltas, finish)

    def stream(self, deltas, finish):
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for delta in [{"role": "assistant", "content": ""}, *deltas]:
                self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            if finish is None:
                self.connection.settimeout(60)
                self.connection.recv(1)  # returns when the client drops the request
                return
            self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            self.event({"choices": [], "usage": {"prompt_tokens": 1200, "completion_tokens": 30, "total_tokens": 1230}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass

    def event(self, value):
        value = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "interop", **value}
        data = f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
        # In two writes, cut at an odd byte.
        self.wfile.write(data[: len(data) // 2])
        self.wfile.flush()
        self.wfile.write(data[len(data) // 2 :])
        self.wfile.flush()


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    with open(sys.argv[1] + ".new", "w") as f:
        f.write(f"{server.server_address[1]}\n")
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    server.serve_forever()
