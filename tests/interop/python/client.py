"""The story of ../README.md, told by the Python SDK as an editor would use it. Its models refuse what is malformed."""

import asyncio
import logging
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    ReadTextFileResponse,
    RequestPermissionResponse,
    WriteTextFileResponse,
)

AGENT = os.environ["HERMES_EDITOR_BIN"]
DISK = "hello world\n"
BUFFER = "hello unsaved world\n"
count = {"passed": 0, "failed": 0}


class Complaints(logging.Handler):
    """What the SDK only logs: an update that its models refuse, for one. `$/` notifications may be ignored, and are."""

    def emit(self, record):
        said = record.getMessage()
        if "$/cancel_request" not in said:
            check(f"the SDK takes all that it gets ({said})", False, record.exc_info and record.exc_info[1])


def check(what, ok, got=None):
    count["passed" if ok else "failed"] += 1
    if not ok:
        print(f"  FAILED {what}: {got!r}")


def equal(what, got, wanted):
    check(what, got == wanted, {"got": got, "wanted": wanted})


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


class View:
    """What an editor shows of a session."""

    def __init__(self):
        self.entries, self.plan, self.kinds = [], None, set()

    def apply(self, update):
        self.kinds.add(update["sessionUpdate"])
        match update["sessionUpdate"]:
            case "user_message_chunk":
                self.chunk("user", update)
            case "agent_message_chunk":
                self.chunk("agent", update)
            case "agent_thought_chunk":
                self.chunk("thought", update)
            case "plan":
                self.plan = update["entries"]
            case "tool_call" | "tool_call_update":
                self.card(update)

    def chunk(self, who, update):
        last = self.entries[-1] if self.entries else {}
        if who in last and last.get("id") == update.get("messageId"):
            last[who] += update["content"]["text"]
        else:
            self.entries.append({who: update["content"]["text"], "id": update.get("messageId")})

    def card(self, update):
        fields = {k: v for k, v in update.items() if k not in ("sessionUpdate", "toolCallId", "_meta")}
        entry = next((e for e in self.calls() if e["call"] == update["toolCallId"]), None)
        if update["sessionUpdate"] == "tool_call":
            check("a call is opened once", entry is None, fields)
            entry = {"call": update["toolCallId"], "status": "pending", "seen": []}
            self.entries.append(entry)
        elif entry is None:
            return check("a call was opened before it changed", False, fields)
        entry.update(fields)
        entry["seen"].append(entry["status"])

    def calls(self):
        return [e for e in self.entries if "call" in e]

    def canonical(self):
        """What must be the same after a load: without the ids of live messages and the states on the way."""
        return [{k: v for k, v in e.items() if k not in ("id", "seen")} for e in self.entries], self.plan


class Editor:
    """An editor with one agent process and one workspace: the client side of the SDK."""

    def __init__(self, base, fs, terminal):
        self.base, self.fs, self.terminal = base, fs, terminal
        self.workspace = base / "workspace"
        self.view, self.buffers = View(), {}
        self.called, self.questions, self.answer, self.session = [], [], "allow_once", None
        self.cancel_when = lambda update: False

    async def session_update(self, session_id, update, **_):
        update = plain(update)
        self.view.apply(update)
        if self.cancel_when(update):
            await self.agent.cancel(session_id=session_id)

    async def request_permission(self, session_id, tool_call, options, **_):
        self.questions.append((plain(tool_call), [plain(o) for o in options]))
        if self.answer == "cancel":
            await self.agent.cancel(session_id=session_id)
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        option = next(o for o in options if o.kind == self.answer)
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))

    async def read_text_file(self, session_id, path, line=None, limit=None, **_):
        self.called.append("read")
        check("whole files are read", line is None and limit is None, (line, limit))
        return ReadTextFileResponse(content=self.buffers.get(path) or Path(path).read_text())

    async def write_text_file(self, session_id, path, content, **_):
        self.called.append("write")
        self.buffers[path] = content
        Path(path).write_text(content)
        return WriteTextFileResponse()

    async def create_terminal(self, **_):
        self.called.append("terminal")
        raise RequestError.internal_error({"details": "commands are the agent's own here"})

    async def prompt(self, text):
        self.view.entries.append({"user": text})
        self.called, self.questions = [], []
        response = await self.agent.prompt(session_id=self.session, prompt=[text_block(text)])
        return response.stop_reason

    async def run(self, story):
        env = {**os.environ, "HERMES_EDITOR_HOME": str(self.base / "home")}
        # As its stderr is not read here, it goes where ours goes.
        options = {"stderr": None, "limit": 4 * 1024 * 1024}
        async with spawn_agent_process(self, AGENT, env=env, cwd=self.workspace, transport_kwargs=options) as (agent, process):
            self.agent = agent
            hello = await agent.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=ClientCapabilities(
                    fs=FileSystemCapabilities(read_text_file=self.fs, write_text_file=self.fs), terminal=self.terminal
                ),
                client_info=Implementation(name="interop-python", version="1"),
            )
            await story(self, hello)
        equal("the agent ends with its input", process.returncode, 0)


def text(content):
    return "".join(c.get("content", {}).get("text", "") for c in content or [])


def diffs(content):
    return [{k: v for k, v in c.items() if k != "_meta"} for c in content or [] if c["type"] == "diff"]


async def change(editor, answer):
    """A turn with plan, read, edit and command, each question answered the same."""
    fs, allow, view = editor.fs, answer == "allow_once", editor.view
    file, ran = editor.workspace / "greeting.txt", editor.workspace / "ran.txt"
    file.write_text(DISK)
    ran.unlink(missing_ok=True)
    editor.buffers[str(file)] = BUFFER
    editor.answer = answer
    before = len(view.calls())
    equal(f"{answer}: stop reason", await editor.prompt("change the greeting"), "end_turn")

    old = BUFFER if fs else DISK
    changed = old.replace("hello", "goodbye")
    diff = [{"type": "diff", "path": str(file), "oldText": old, "newText": changed}]
    calls = view.calls()[before:]
    equal(f"{answer}: cards", [c.get("kind") for c in calls], ["think", "read", "edit", "execute"])
    edit, command = calls[2], calls[3]
    equal(f"{answer}: two questions", len(editor.questions), 2)
    (first, _), (second, _) = editor.questions
    equal(f"{answer}: the question is about the card", first["toolCallId"], edit["call"])
    equal(f"{answer}: the question shows the diff", diffs(first.get("content")), diff)
    equal(f"{answer}: the card shows the diff", diffs(edit.get("content")), diff)
    equal(f"{answer}: the second question", second["toolCallId"], command["call"])
    check(f"{answer}: it shows the command", "command-output" in second["rawInput"]["command"], second)
    for _, options in editor.questions:
        kinds = [o["kind"] for o in options]
        check(f"{answer}: options", "allow_once" in kinds and "reject_once" in kinds, kinds)
    end = "completed" if allow else "failed"
    equal(f"{answer}: states", [c["status"] for c in calls], ["completed", "completed", end, end])
    check(f"{answer}: pending first", all(c["seen"][0] == "pending" for c in calls), [c["seen"] for c in calls])
    equal(f"{answer}: location", edit["locations"][0]["path"], str(file))
    equal(f"{answer}: output is shown", f"{changed}command-output" in text(command.get("content")), allow)
    equal(f"{answer}: plan", [e["status"] for e in view.plan], ["in_progress", "pending"])

    equal(f"{answer}: disk", file.read_text(), changed if allow else DISK)
    equal(f"{answer}: buffer", editor.buffers[str(file)], changed if allow and fs else BUFFER)
    equal(f"{answer}: command ran", ran.exists(), allow)
    did = "edit done, command goodbye. " if allow else "edit rejected, command rejected. "
    equal(f"{answer}: last word", view.entries[-1].get("agent"), f"read {'unsaved' if fs else 'saved'}, {did}Grüße 👋")
    equal(f"{answer}: reads through the editor", "read" in editor.called, fs)
    equal(f"{answer}: writes through the editor", "write" in editor.called, fs and allow)
    check(f"{answer}: no client terminal", "terminal" not in editor.called)


async def cancels(editor):
    slept = editor.workspace / "slept.txt"
    editor.cancel_when = lambda u: u["sessionUpdate"] == "agent_message_chunk" and "First" in u["content"]["text"]
    equal("cancel in a stream", await editor.prompt("wait for it"), "cancelled")
    editor.cancel_when = lambda u: False
    editor.answer = "cancel"
    equal("cancel in a question", await editor.prompt("sleep in a question"), "cancelled")
    check("nothing ran", not slept.exists())
    equal("its card", editor.view.calls()[-1]["status"], "failed")
    editor.answer = "allow_once"
    editor.cancel_when = lambda u: u["sessionUpdate"] == "tool_call_update" and u.get("status") == "in_progress"
    start = time.monotonic()
    equal("cancel in a command", await editor.prompt("sleep in a command"), "cancelled")
    check("in time", time.monotonic() - start < 20, time.monotonic() - start)
    equal("its card", editor.view.calls()[-1]["status"], "failed")
    editor.cancel_when = lambda u: False


async def first(editor, hello):
    equal("protocol version", hello.protocol_version, 1)
    equal("agent", hello.agent_info.name, "hermes-editor")
    check("load", hello.agent_capabilities.load_session)
    made = await editor.agent.new_session(cwd=str(editor.workspace), mcp_servers=[])
    editor.session = made.session_id
    equal("mode", made.modes.current_mode_id, "ask")
    equal("options", [o.id for o in made.config_options], ["mode", "model"])
    await change(editor, "allow_once")
    await change(editor, "reject_once")
    await cancels(editor)
    check("commands were announced", "available_commands_update" in editor.view.kinds, editor.view.kinds)


async def second(editor, live):
    """In a new process. `session/delete` is missing in this SDK."""
    agent, session, cwd = editor.agent, editor.session, str(editor.workspace)
    listed = await agent.list_sessions(cwd=cwd)
    equal("list", [(s.session_id, s.title) for s in listed.sessions], [(session, "change the greeting")])
    await agent.load_session(session_id=session, cwd=cwd, mcp_servers=[])
    await agent.list_sessions(cwd=cwd)  # the SDK runs handlers of updates beside the response: now they are through
    equal("load shows what was shown live", editor.view.canonical(), live)
    await agent.close_session(session_id=session)
    size = len(editor.view.entries)
    await agent.resume_session(session_id=session, cwd=cwd, mcp_servers=[])
    await agent.list_sessions(cwd=cwd)
    equal("resume shows nothing again", len(editor.view.entries), size)

    await agent.set_session_mode(session_id=session, mode_id="accept-edits")
    options = (await agent.set_config_option(session_id=session, config_id="mode", value="plan")).config_options
    equal("all options are told", [o.id for o in options], ["mode", "model"])
    equal("mode option", options[0].current_value, "plan")
    equal("a turn goes on", await editor.prompt("hi there"), "end_turn")
    equal("its text", editor.view.entries[-1].get("agent"), "Nothing to do.")
    told = {"config_option_update", "current_mode_update"} & editor.view.kinds
    equal("modes and options are in step", len(told), 2)
    await agent.close_session(session_id=session)
    try:
        await agent.load_session(session_id="no-such-session", cwd=cwd, mcp_servers=[])
        check("an unknown session is refused", False)
    except RequestError as e:
        equal("an unknown session is refused", e.code, -32002)


async def main():
    for fs, terminal in ((True, True), (False, False)):
        print(f"python sdk, fs {fs}, terminal {terminal}")
        base = Path(tempfile.mkdtemp(prefix="interop-")).resolve()
        (base / "workspace").mkdir()
        try:
            one = Editor(base, fs, terminal)
            await one.run(first)
            two = Editor(base, fs, terminal)
            two.session = one.session
            await two.run(lambda editor, _: second(editor, one.view.canonical()))
        except Exception as e:  # whatever ends the story early is a failure of it
            check("the story goes to its end", False, e)
        shutil.rmtree(base, ignore_errors=True)
    print(f"python sdk: {count['passed']} passed, {count['failed']} failed")
    sys.exit(bool(count["failed"]) or not count["passed"])


logging.basicConfig(handlers=[Complaints(logging.WARNING)])
asyncio.run(main())
