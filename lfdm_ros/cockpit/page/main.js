// Starts the page: session, connections, pictures. State that tests read is on document.body.dataset.

import {Bird} from "./bird.js";
import {CalibrationCard} from "./calibration.js";
import {CameraPanel} from "./camera.js";
import {Choices} from "./choices.js";
import {connectedPads} from "./devices.js";
import {Input} from "./input.js";
import {GroundLegend} from "./ground.js";
import {InputLink, ViewLink, openSession} from "./link.js";
import {Model} from "./model.js";
import {Panel, UNITS} from "./panel.js";
import {ReplayBar} from "./replay.js";
import {Strips} from "./strips.js";
import {TeachDialogue} from "./teach.js";

const KEYS = `W or up: throttle; S or down: brake; A, D or left, right: steer
Space: full brake; Shift: hold the wheel without doing anything
Q: reverse; P: autonomy alone, and back; T: take over, hand back; R: record
V or 1 2 3: view; C: camera, larger or smaller; H: this; Esc: STOP, any page may
Pad: hold a shoulder button; left stick steers, right trigger throttle, left trigger brake
Wheel, or a pad that you want otherwise: press teach device once
Let go of everything, and autonomy takes over, or the vehicle brakes.
This page is no safety device: with a real vehicle its own emergency stop counts.`;
const STEP = 10;  // ticks of a simulator that publishes 100 times a second
const VIEWS = ["chase", "driver", "bird"];

const element = id => /** @type {any} */ (document.getElementById(id));
const options = new URLSearchParams(location.search);
const model = new Model(), data = document.body.dataset;
let picture = 0;  // number of the newest state that has been drawn
let trouble = "", fault = "", framed = 0, awake = false;

/** The view in 3-D, or the bird's view where there is no WebGL. */
async function makeView() {
  const canvas = element("canvas");
  if (document.createElement("canvas").getContext("webgl2")) {
    const {Scene} = await import("./scene.js");
    data.renderer = "webgl";
    return new Scene(canvas, Number(options.get("scale") ?? 1) || 1);
  }
  data.renderer = "2d";
  element("view").disabled = true;
  notify("Bird's view only: this browser gives no WebGL, which the view in 3-D needs (see its settings for graphics acceleration).");
  return new Bird(canvas);
}

function notify(text) {
  element("notice").textContent = text;
  element("notice").hidden = !text;
}

/** Keeps the screen on from the first driving on, where the browser can: a pad or a wheel does not count as use. */
function keepAwake() {
  if (awake || document.hidden || !navigator.wakeLock) return;
  awake = true;
  navigator.wakeLock.request("screen").then(lock => lock.addEventListener("release", () => { awake = false; }), () => {});
}

function choose(view) {
  element("view").value = view;
}

function onKey(code, input) {
  if (code === "Escape") link.request("stop", true);
  else if (code === "KeyH") element("help").click();
  else if (code === "KeyR") element("record").click();
  else if (code === "KeyC") element("camera").click();
  else if (code === "KeyT") element("takeover").click();
  else if (code === "KeyQ") notify(input.toggleReverse());
  else if (code === "KeyP" && model.texts.sharing) link.request("mode", model.texts.sharing.mode === "autonomy" ? "blend" : "autonomy");
  else if (code === "KeyV") choose(VIEWS[(VIEWS.indexOf(element("view").value) + 1) % 3]);
  else if (/^Digit[123]$/.test(code)) choose(VIEWS[Number(code.at(-1)) - 1]);
}

const link = await start();

async function start() {
  trouble = await openSession();
  if (trouble) {
    element("stale").textContent = trouble;
    element("stale").hidden = false;
    data.trouble = trouble;
    throw new Error(trouble);
  }
  const view = await makeView(), camera = new CameraPanel(element("camera")), panel = new Panel(), strips = new Strips(element("strips"));
  const legend = new GroundLegend(element("stage"));
  /** @type {InputLink | null} */
  let inputLink = null;
  const viewLink = new ViewLink(message => {
    const kind = model.take(message, performance.now());
    data[kind.replaceAll(/\W/g, "")] = String(1 + Number(data[kind.replaceAll(/\W/g, "")] ?? 0));
    if (kind === "replay") {
      document.body.classList.add("replaying");
      replay.show(model.texts.replay, model.texts.events?.events ?? []);
      data.time = model.texts.replay.time;
    }
    // A page of a replay has no seat; which it is, it knows before the first word on the seat.
    if (kind === "seat" && !model.texts.replay) inputLink ??= new InputLink();
    if (kind === "state" && model.state) strips.add(0, model.state.stamp, [model.state.vx * UNITS[element("unit").value]]);
    if (kind === "sharing values" && model.sharing) {
      const {stamp, k, threat, operator, autonomy, applied} = model.sharing;
      strips.add(1, stamp, [operator[0], autonomy[0], applied[0]]);
      strips.add(2, stamp, [k, threat]);
    }
    if (kind === "other state" && model.other) strips.addGhost(0, model.other.stamp, [model.other.vx * UNITS[element("unit").value]]);
    if (kind === "other sharing" && model.otherSharing) {
      const {stamp, k, threat, applied} = model.otherSharing;
      strips.addGhost(1, stamp, [applied[0]]);
      strips.addGhost(2, stamp, [k, threat]);
    }
  }, open => { trouble = open ? "" : "no connection to the server"; });
  const replay = new ReplayBar(element("replay"), (name, value) => viewLink.request(name, value));
  const choices = new Choices(/** @type {HTMLElement} */ (document.querySelector("aside")), (name, value) => viewLink.request(name, value));
  addEventListener("hashchange", () => model.texts.replay && replay.seekAddress());
  addEventListener("keydown", event => {
    const typing = event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement || event.target instanceof HTMLButtonElement;
    if (model.texts.replay && !typing && replay.key(event.code)) event.preventDefault();
  });
  const input = new Input({touchSteer: element("touch-steer"), touchPedals: element("touch-pedals")},
    intent => inputLink?.send(intent, picture), () => model.state?.vx ?? 0, code => onKey(code, input), notify);
  const dialogue = new TeachDialogue(element("teach-dialogue"), input, notify);
  const card = new CalibrationCard(element("calibration"), element("calibration-open"), name => viewLink.request(name, true));
  element("teach").onclick = () => dialogue.open();
  element("stop").onclick = () => viewLink.request("stop", true);
  element("resume").onclick = () => viewLink.request("resume", true);
  element("takeover").onclick = event => { viewLink.request(model.texts.sharing.takeover === "taken" ? "hand_back" : "take_over", true); event.target.blur(); };
  element("pause").onclick = () => viewLink.request("pause", !model.texts.simulator?.paused);
  element("latency").onchange = event => { viewLink.request("latency", Number(event.target.value)); event.target.blur(); };
  element("record").onclick = () => viewLink.request("record", !model.texts.recording?.records);
  element("pace").onchange = event => { viewLink.request("pace", Number(event.target.value)); event.target.blur(); };
  element("step").onclick = () => viewLink.request("step", STEP);
  element("reset").onclick = () => viewLink.request("reset", true);
  element("mode").onchange = event => { viewLink.request("mode", event.target.value); event.target.blur(); };
  for (const id of ["view", "unit"]) element(id).onchange = event => event.target.blur();
  element("keys").textContent = KEYS;
  element("help").onclick = () => {
    element("keys").hidden = !element("keys").hidden;
    element("help").setAttribute("aria-expanded", String(!element("keys").hidden));
  };

  function frame(now) {
    requestAnimationFrame(frame);  // first: an error of this frame must not be the last picture
    try {
      draw(now);
    } catch (error) {
      fault = `error of this page: ${error instanceof Error ? error.message : error}`;
      element("stale").textContent = fault;
      element("stale").hidden = false;
      data.stale = "true";
      console.error(error);
    }
  }

  function draw(now) {
    if (!model.texts.replay) model.forget(now);
    const age = (performance.now() - model.receivedAt) / 1000, dt = Math.min((now - framed) / 1000, 0.2);
    framed = now;
    const shown = model.state?.number ?? 0;
    legend.show(model);
    view.draw(model, element("view").value, dt);
    fault = view.dead ? "the graphics processor has failed: no picture" : "";
    panel.show(model, input.intent, age, element("unit").value, viewLink.stopWanted ? "STOP NOT SENT: no connection" : trouble || fault,
      input.keyboard.reverse);
    choices.show(model.texts);
    strips.draw(now);
    card.show(model.texts);
    camera.show(model.image);
    element("teach").hidden = !connectedPads().length;
    // A threat that is no longer said is none, nor is that of a recording.
    const {sharing, state} = model, fresh = sharing && state && age < 0.5 && state.stamp - sharing.stamp < 0.5;
    if (fresh && !model.texts.replay) input.rumble(sharing.threat);
    if (!view.dead) picture = shown;  // what nobody sees does not count
    data.frames = String(1 + Number(data.frames ?? 0));
    data.stale = String(!element("stale").hidden);
    [data.stamp, data.speed] = [String(model.state?.stamp ?? ""), String(model.state?.vx ?? "")];
    data.pace = String(model.texts.simulator?.pace_asked ?? "");
    data.x = String(model.state?.x ?? "");
    data.ghost = String(model.ghost?.[0] ?? "");
    data.held = String(input.intent.held);
    if (input.intent.held) keepAwake();
  }
  requestAnimationFrame(frame);
  return viewLink;
}
