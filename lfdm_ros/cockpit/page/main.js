// Starts the page: session, connections, pictures. State that tests read is on document.body.dataset.

import {Bird} from "./bird.js";
import {CalibrationCard} from "./calibration.js";
import {CameraPanel} from "./camera.js";
import {Choices} from "./choices.js";
import {connectedPads} from "./devices.js";
import {find} from "./elements.js";
import {Input} from "./input.js";
import {GroundLegend} from "./ground.js";
import {InputLink, ViewLink, openSession} from "./link.js";
import {Model} from "./model.js";
import {Panel, UNITS} from "./panel.js";
import {ReplayBar} from "./replay.js";
import {Strips} from "./strips.js";
import {TeachDialogue} from "./teach_dialogue.js";

const KEYS = `W or up: throttle; S or down: brake; A, D or left, right: steer
Space: full brake; Shift: hold the wheel without doing anything
Q: reverse; P: autonomy alone, and back; T: take over, hand back; R: record
V or 1 2 3: view; C: camera, larger or smaller; H: this; Esc: STOP, any page may
Pad: hold a shoulder button; left stick steers, right trigger throttle, left trigger brake
Wheel, or a pad that you want otherwise: press teach device once
Let go of everything, and autonomy takes over, or the vehicle brakes.
This page is no safety device: with a real vehicle its own emergency stop counts.`;
const STEP = 10;  // ticks of a simulator that publishes 100 times a second
const LATE = 250, MANY = 10;  // ms between two pictures; of the late ones
const VIEWS = ["chase", "driver", "bird"];

const choice = (/** @type {string} */ id) => find(id, HTMLSelectElement);
const viewChoice = choice("view"), unitChoice = choice("unit");
const options = new URLSearchParams(location.search);
const model = new Model(), data = document.body.dataset;
let picture = 0;  // number of the newest state that has been drawn
let trouble = "", fault = "", framed = 0, awake = false;
let late = 0;  // recent late pictures, Infinity once the advice was shown

/** The view in 3-D, or the bird's view where there is no WebGL. */
async function makeView() {
  const canvas = find("canvas", HTMLCanvasElement);
  const flat = options.get("view") === "2d";
  if (!flat && document.createElement("canvas").getContext("webgl2")) {
    const {Scene} = await import("./scene.js");
    data.renderer = "webgl";
    return new Scene(canvas, Number(options.get("scale") ?? 1) || 1);
  }
  data.renderer = "2d";
  viewChoice.disabled = true;
  if (!flat) notify("Bird's view only: this browser gives no WebGL, which the view in 3-D needs (see its settings for graphics acceleration).");
  return new Bird(canvas);
}

/** Says something above the view; an empty text: nothing. @param {string} text */
function notify(text) {
  find("notice").textContent = text;
  find("notice").hidden = !text;
}

/** Says once how to get more pictures, where they are late again and again. @param {number} gap since the last one, ms */
function watchPictures(gap) {
  if (data.renderer !== "webgl" || !(late < Infinity)) return;
  late = Math.max(0, late + (gap > LATE ? 1 : -0.2));
  if (late < MANY || !find("notice").hidden) return;
  late = Infinity;
  notify(`The picture is late again and again. Open the page ${options.has("scale") ? "" : "with ?scale=0.5 for half the resolution, or "}with ?view=2d for the bird's view without WebGL.`);
}

/** Keeps the screen on once driving, if the browser can: pads and wheels do not count as use. */
function keepAwake() {
  if (awake || document.hidden || !navigator.wakeLock) return;
  awake = true;
  navigator.wakeLock.request("screen").then(lock => lock.addEventListener("release", () => { awake = false; }), () => {});
}

/** Covers the picture. @param {string} text */
function cover(text) {
  find("stale").textContent = text;
  find("stale").hidden = false;
}

/** Lets a control be set, and keys drive again. @param {HTMLSelectElement | HTMLInputElement} control @param {(value: string) => void} take */
function onChange(control, take) {
  control.onchange = () => {
    take(control.value);
    control.blur();
  };
}

/** Takes a key that does not drive. @param {string} code @param {Input} input */
function onKey(code, input) {
  if (code === "Escape") link.request("stop", true);
  else if (code === "KeyH") find("help").click();
  else if (code === "KeyR") find("record").click();
  else if (code === "KeyC") find("camera").click();
  else if (code === "KeyT") find("takeover").click();
  else if (code === "KeyQ") notify(input.toggleReverse());
  else if (code === "KeyP" && model.texts.sharing) link.request("mode", model.texts.sharing.mode === "autonomy" ? "blend" : "autonomy");
  else if (code === "KeyV") viewChoice.value = VIEWS[(VIEWS.indexOf(viewChoice.value) + 1) % 3];
  else if (/^Digit[123]$/.test(code)) viewChoice.value = VIEWS[Number(code.at(-1)) - 1];
}

const link = await start();

async function start() {
  trouble = await openSession();
  if (trouble) {
    cover(trouble);
    data.trouble = trouble;
    throw new Error(trouble);
  }
  const view = await makeView(), camera = new CameraPanel(find("camera", HTMLButtonElement)), panel = new Panel(), strips = new Strips(find("strips"));
  const legend = new GroundLegend(find("stage"));
  /** @type {InputLink | null} */
  let inputLink = null;
  const viewLink = new ViewLink(message => {
    const kind = model.take(message, performance.now());
    data[kind.replaceAll(/\W/g, "")] = String(1 + Number(data[kind.replaceAll(/\W/g, "")] ?? 0));
    if (kind === "replay") {
      document.body.classList.add("replaying");
      if (model.texts.replay) replay.show(model.texts.replay, model.texts.events?.events ?? []);
      data.time = String(model.texts.replay?.time);
    }
    // A page of a replay has no seat; it is identified before the first status of a seat.
    if (kind === "seat" && !model.texts.replay) inputLink ??= new InputLink();
    strips.take(kind, model, UNITS[unitChoice.value]);
  }, open => { trouble = open ? "" : "no connection to the server"; });
  const replay = new ReplayBar(find("replay"), (name, value) => viewLink.request(name, value));
  const choices = new Choices(/** @type {HTMLElement} */ (document.querySelector("aside")), (name, value) => viewLink.request(name, value));
  addEventListener("hashchange", () => model.texts.replay && replay.seekAddress());
  addEventListener("keydown", event => {
    const typing = event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement || event.target instanceof HTMLButtonElement;
    if (model.texts.replay && !typing && replay.key(event.code)) event.preventDefault();
  });
  const input = new Input({touchSteer: find("touch-steer"), touchPedals: find("touch-pedals")},
    intent => inputLink?.send(intent, picture), () => model.state?.vx ?? 0, code => onKey(code, input), notify);
  const dialogue = new TeachDialogue(find("teach-dialogue", HTMLDialogElement), input, notify);
  const card = new CalibrationCard(find("calibration"), find("calibration-open", HTMLButtonElement), name => viewLink.request(name, true));
  find("teach").onclick = () => dialogue.open();
  find("stop").onclick = () => viewLink.request("stop", true);
  find("resume").onclick = () => viewLink.request("resume", true);
  const takeover = find("takeover");
  takeover.onclick = () => { viewLink.request(model.texts.sharing?.takeover === "taken" ? "hand_back" : "take_over", true); takeover.blur(); };
  find("pause").onclick = () => viewLink.request("pause", !model.texts.simulator?.paused);
  onChange(find("latency", HTMLInputElement), value => viewLink.request("latency", Number(value)));
  find("record").onclick = () => viewLink.request("record", !model.texts.recording?.records);
  onChange(choice("pace"), value => viewLink.request("pace", Number(value)));
  find("step").onclick = () => viewLink.request("step", STEP);
  find("reset").onclick = () => viewLink.request("reset", true);
  onChange(choice("mode"), value => viewLink.request("mode", value));
  for (const one of [viewChoice, unitChoice]) onChange(one, () => {});
  find("keys").textContent = KEYS;
  find("help").onclick = () => {
    find("keys").hidden = !find("keys").hidden;
    find("help").setAttribute("aria-expanded", String(!find("keys").hidden));
  };

  /** @param {number} now ms */
  function frame(now) {
    requestAnimationFrame(frame);  // first: an error of this frame must not be the last picture
    try {
      draw(now);
    } catch (error) {
      fault = `error of this page: ${error instanceof Error ? error.message : error}`;
      cover(fault);
      data.stale = "true";
      console.error(error);
    }
  }

  /** @param {number} now ms */
  function draw(now) {
    if (!model.texts.replay) model.forget(now);
    const age = (performance.now() - model.receivedAt) / 1000, dt = Math.min((now - framed) / 1000, 0.2);
    watchPictures(now - framed);
    framed = now;
    const shown = model.state?.number ?? 0;
    legend.show(model);
    view.draw(model, viewChoice.value, dt);
    fault = view.dead ? "the graphics processor has failed: no picture" : "";
    panel.show(model, input.intent, age, unitChoice.value, viewLink.stopWanted ? "STOP NOT SENT: no connection" : trouble || fault,
      input.keyboard.reverse);
    choices.show(model.texts);
    strips.draw(now);
    card.show(model.texts);
    camera.show(model.image);
    find("teach").hidden = !connectedPads().length;
    // Ignores outdated threats and those of a recording.
    const {sharing, state} = model, fresh = sharing && state && age < 0.5 && state.stamp - sharing.stamp < 0.5;
    if (fresh && !model.texts.replay) input.rumble(sharing.threat);
    if (!view.dead) picture = shown;  // invisible pictures do not count
    data.frames = String(1 + Number(data.frames ?? 0));
    data.stale = String(!find("stale").hidden);
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
