// The story of ../README.md, told by the TypeScript SDK as an editor would use it. Its schemas refuse what is malformed.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { isDeepStrictEqual } from "node:util";
import { PROTOCOL_VERSION, client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const AGENT = process.env.HERMES_EDITOR_BIN;
const DISK = "hello world\n";
const BUFFER = "hello unsaved world\n";
const { agent: A, client: C } = methods;

let passed = 0;
let failed = 0;
/** One check; `got` is shown where it fails. */
function check(what, ok, got) {
  if (ok) return void passed++;
  failed++;
  console.log(`  FAILED ${what}${got === undefined ? "" : `: ${JSON.stringify(got)}`}`);
}
const equal = (what, got, wanted) => check(what, isDeepStrictEqual(got, wanted), { got, wanted });

// The SDK only logs an update that its schema refuses.
for (const level of ["error", "warn"]) console[level] = (...said) => check("the SDK takes all that it gets", false, said.map(String));

/** What an editor shows of a session. */
class View {
  entries = [];
  plan = null;
  kinds = new Set();
  user(text) {
    this.entries.push({ user: text });
  }
  apply(update) {
    this.kinds.add(update.sessionUpdate);
    const chunk = { user_message_chunk: "user", agent_message_chunk: "agent", agent_thought_chunk: "thought" };
    const who = chunk[update.sessionUpdate];
    if (who) {
      const last = this.entries.at(-1);
      if (last?.[who] !== undefined && last.id === update.messageId) last[who] += update.content.text;
      else this.entries.push({ [who]: update.content.text, id: update.messageId });
    } else if (update.sessionUpdate === "plan") this.plan = update.entries;
    else if (update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update") this.card(update);
  }
  card({ sessionUpdate, toolCallId, _meta, ...fields }) {
    let entry = this.entries.find((e) => e.call === toolCallId);
    if (sessionUpdate === "tool_call") {
      check(`${toolCallId} is opened once`, !entry);
      this.entries.push((entry = { call: toolCallId, status: "pending", seen: [] }));
    } else if (!entry) return check(`${toolCallId} was opened before it changed`, false, fields);
    for (const [key, value] of Object.entries(fields)) if (value != null) entry[key] = value;
    entry.seen.push(entry.status);
  }
  calls() {
    return this.entries.filter((e) => e.call);
  }
  /** What must be the same after a load: without the ids of live messages and the states on the way. */
  canonical() {
    const entries = this.entries.map(({ id, seen, ...entry }) => entry);
    return JSON.parse(JSON.stringify({ entries, plan: this.plan }));
  }
}

/** An editor on its own agent process, with one workspace. */
class Editor {
  constructor(place, caps) {
    this.place = place;
    this.caps = caps;
    this.view = new View();
    this.buffers = new Map();
    this.called = [];
    this.questions = [];
    this.answer = "allow_once";
    this.on = () => {};
  }
  async run(story) {
    const child = spawn(AGENT, [], {
      cwd: this.place.workspace,
      env: { ...process.env, HERMES_EDITOR_HOME: this.place.home },
      stdio: ["pipe", "pipe", "inherit"],
    });
    const exit = new Promise((resolve) => child.on("exit", (code, signal) => resolve(signal ?? code)));
    const app = client({ name: "interop-typescript" })
      .onNotification(C.session.update, ({ params }) => {
        this.view.apply(params.update);
        this.on(params.update);
      })
      .onRequest(C.session.requestPermission, ({ params }) => this.permission(params))
      .onRequest(C.fs.readTextFile, ({ params }) => this.read(params))
      .onRequest(C.fs.writeTextFile, ({ params }) => this.write(params))
      .onRequest(C.terminal.create, () => {
        this.called.push("terminal/create");
        throw new Error("commands are the agent's own here");
      });
    const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
    try {
      await app.connectWith(stream, async (agent) => {
        this.agent = agent;
        const hello = await agent.request(A.initialize, {
          protocolVersion: PROTOCOL_VERSION,
          clientCapabilities: { fs: { readTextFile: this.caps.fs, writeTextFile: this.caps.fs }, terminal: this.caps.terminal },
          clientInfo: { name: "interop-typescript", version: "1" },
        });
        await story(hello);
      });
    } finally {
      child.stdin.end();
      const late = setTimeout(() => child.kill("SIGKILL"), 5000);
      equal("the agent ends with its input", await exit, 0);
      clearTimeout(late);
    }
  }
  read({ path: file }) {
    this.called.push("fs/read_text_file");
    return { content: this.buffers.get(file) ?? fs.readFileSync(file, "utf8") };
  }
  write({ path: file, content }) {
    this.called.push("fs/write_text_file");
    this.buffers.set(file, content);
    fs.writeFileSync(file, content);
    return {};
  }
  async permission(params) {
    this.questions.push(params);
    if (this.answer === "cancel") {
      await this.agent.notify(A.session.cancel, { sessionId: params.sessionId });
      return { outcome: { outcome: "cancelled" } };
    }
    const option = params.options.find((o) => o.kind === this.answer);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  }
  async prompt(text) {
    this.view.user(text);
    this.questions = [];
    this.called = [];
    const { stopReason } = await this.agent.request(A.session.prompt, {
      sessionId: this.session,
      prompt: [{ type: "text", text }],
    });
    return stopReason;
  }
}

const text = (content) => (content ?? []).map((c) => c.content?.text ?? "").join("");

/** A turn with plan, read, edit and command, each question answered the same. */
async function change(editor, answer) {
  const { place, caps, view } = editor;
  const allow = answer === "allow_once";
  const file = path.join(place.workspace, "greeting.txt");
  fs.writeFileSync(file, DISK);
  fs.rmSync(path.join(place.workspace, "ran.txt"), { force: true });
  editor.buffers.set(file, BUFFER);
  editor.answer = answer;
  const before = view.calls().length;
  equal(`${answer}: stop reason`, await editor.prompt("change the greeting"), "end_turn");

  const old = caps.fs ? BUFFER : DISK;
  const changed = old.replace("hello", "goodbye");
  const diff = [{ type: "diff", path: file, oldText: old, newText: changed }];
  equal(`${answer}: two questions`, editor.questions.length, 2);
  const calls = view.calls().slice(before);
  equal(`${answer}: cards`, calls.map((c) => c.kind), ["think", "read", "edit", "execute"]);
  const [plan, read, edit, command] = calls;
  const [first, second] = editor.questions;
  equal(`${answer}: the question is about the card`, first.toolCall.toolCallId, edit.call);
  const diffs = (content) => (content ?? []).filter((c) => c.type === "diff").map(({ _meta, ...d }) => d);
  equal(`${answer}: the question shows the diff`, diffs(first.toolCall.content), diff);
  equal(`${answer}: the card shows the diff`, diffs(edit.content), diff);
  equal(`${answer}: the second question`, second.toolCall.toolCallId, command.call);
  check(`${answer}: it shows the command`, second.toolCall.rawInput?.command?.includes("command-output"), second.toolCall);
  for (const question of editor.questions) {
    const kinds = question.options.map((o) => o.kind);
    check(`${answer}: options`, kinds.includes("allow_once") && kinds.includes("reject_once"), kinds);
  }
  const end = allow ? "completed" : "failed";
  equal(`${answer}: states`, calls.map((c) => c.status), ["completed", "completed", end, end]);
  check(`${answer}: pending first`, calls.every((c) => c.seen[0] === "pending"), calls.map((c) => c.seen));
  equal(`${answer}: location`, edit.locations?.[0]?.path, file);
  check(`${answer}: output is shown`, text(command.content).includes(`${changed}command-output`) === allow, command.content);
  equal(`${answer}: plan`, view.plan?.map((e) => e.status), ["in_progress", "pending"]);

  equal(`${answer}: disk`, fs.readFileSync(file, "utf8"), allow ? changed : DISK);
  equal(`${answer}: buffer`, editor.buffers.get(file), allow && caps.fs ? changed : BUFFER);
  equal(`${answer}: command ran`, fs.existsSync(path.join(place.workspace, "ran.txt")), allow);
  const wanted = `read ${caps.fs ? "unsaved" : "saved"}, ` + (allow ? "edit done, command goodbye. " : "edit rejected, command rejected. ") + "Grüße 👋";
  equal(`${answer}: last word`, view.entries.at(-1).agent, wanted);
  const called = new Set(editor.called);
  equal(`${answer}: reads through the editor`, called.has("fs/read_text_file"), caps.fs);
  equal(`${answer}: writes through the editor`, called.has("fs/write_text_file"), caps.fs && allow);
  check(`${answer}: no client terminal`, !called.has("terminal/create"));
}

async function cancels(editor) {
  const cancel = () => editor.agent.notify(A.session.cancel, { sessionId: editor.session });
  const slept = path.join(editor.place.workspace, "slept.txt");
  editor.on = (u) => u.sessionUpdate === "agent_message_chunk" && u.content.text.includes("First") && cancel();
  equal("cancel in a stream", await editor.prompt("wait for it"), "cancelled");
  editor.on = () => {};
  editor.answer = "cancel";
  equal("cancel in a question", await editor.prompt("sleep in a question"), "cancelled");
  check("nothing ran", !fs.existsSync(slept));
  equal("its card", editor.view.calls().at(-1).status, "failed");
  editor.answer = "allow_once";
  editor.on = (u) => u.sessionUpdate === "tool_call_update" && u.status === "in_progress" && cancel();
  const start = Date.now();
  equal("cancel in a command", await editor.prompt("sleep in a command"), "cancelled");
  check("in time", Date.now() - start < 20_000, Date.now() - start);
  equal("its card", editor.view.calls().at(-1).status, "failed");
  editor.on = () => {};
}

async function first(editor, hello) {
  equal("protocol version", hello.protocolVersion, 1);
  equal("agent", hello.agentInfo?.name, "hermes-editor");
  check("load", hello.agentCapabilities?.loadSession === true);
  const made = await editor.agent.request(A.session.new, { cwd: editor.place.workspace, mcpServers: [] });
  editor.session = made.sessionId;
  equal("mode", made.modes?.currentModeId, "ask");
  equal("options", made.configOptions?.map((o) => o.id), ["mode", "model"]);
  await change(editor, "allow_once");
  await change(editor, "reject_once");
  await cancels(editor);
  check("commands were announced", editor.view.kinds.has("available_commands_update"), [...editor.view.kinds]);
}

/** In a new process. */
async function second(editor, live) {
  const { agent, session: sessionId } = editor;
  const cwd = editor.place.workspace;
  const where = { sessionId, cwd, mcpServers: [] };
  const { sessions } = await agent.request(A.session.list, { cwd });
  equal("list", sessions.map((s) => [s.sessionId, s.title]), [[sessionId, "change the greeting"]]);
  await agent.request(A.session.load, where);
  equal("load shows what was shown live", editor.view.canonical(), live);
  await agent.request(A.session.close, { sessionId });
  const size = editor.view.entries.length;
  await agent.request(A.session.resume, where);
  equal("resume shows nothing again", editor.view.entries.length, size);

  await agent.request(A.session.setMode, { sessionId, modeId: "accept-edits" });
  const { configOptions } = await agent.request(A.session.setConfigOption, { sessionId, configId: "mode", value: "plan" });
  equal("all options are told", configOptions.map((o) => o.id), ["mode", "model"]);
  equal("mode option", configOptions[0].currentValue, "plan");
  equal("a turn goes on", await editor.prompt("hi there"), "end_turn");
  equal("its text", editor.view.entries.at(-1).agent, "Nothing to do.");
  const told = ["config_option_update", "current_mode_update"].filter((kind) => editor.view.kinds.has(kind));
  equal("modes and options are in step", told.length, 2);
  await agent.request(A.session.close, { sessionId });
  await agent.request(A.session.delete, { sessionId });
  const after = await agent.request(A.session.list, { cwd });
  equal("deleted", after.sessions, []);
  const code = await agent.request(A.session.load, where).then(() => null, (e) => e.code);
  equal("a deleted session is unknown", code, -32002);
}

for (const caps of [{ fs: true, terminal: true }, { fs: false, terminal: false }]) {
  console.log(`typescript sdk, fs ${caps.fs}, terminal ${caps.terminal}`);
  const base = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "interop-")));
  const place = { workspace: path.join(base, "workspace"), home: path.join(base, "home") };
  fs.mkdirSync(place.workspace);
  try {
    const one = new Editor(place, caps);
    await one.run((hello) => first(one, hello));
    const two = new Editor(place, caps);
    two.session = one.session;
    await two.run(() => second(two, one.view.canonical()));
  } catch (e) {
    check(`the story goes to its end (${e?.message ?? e})`, false, e?.data);
  }
  fs.rmSync(base, { recursive: true, force: true });
}
console.log(`typescript sdk: ${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);
