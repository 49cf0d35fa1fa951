// The card of a calibration from a drive: identifiability, progress, prior and posterior, gates, and the drive before and after.

import {context2d, find, make} from "./elements.js";
import uPlot from "./vendor/uPlot.esm.js";

/** @typedef {import("./model.js").CardText} CardText */

const MEASURED = "#ffffff", BEFORE = "#e69f00", AFTER = "#56b4e9", BAND = "rgba(86, 180, 233, 0.25)", PRIOR = "#59636e";
/** @type {Record<string, string>} */
const UNITS = {yaw_rate: "rad/s", vy: "m/s", vx: "m/s", roll: "rad", roll_rate: "rad/s", position: "m"};
/** @type {Record<string, string>} */
const STAGES = {surveying: "Looks at what this drive can teach.", surveyed: "This drive can teach:", calibrating: "Calibrates.",
  comparing: "Calibrated. Drives the recorded inputs again, before and after.", done: "Calibrated.", failed: "Failed:"};

const short = (/** @type {unknown} */ value) => typeof value === "number" ? Number(value.toPrecision(3)).toString() : "-";

export class CalibrationCard {
  /**
   * @param {HTMLElement} place
   * @param {HTMLButtonElement} opener shows the card again
   * @param {(name: string) => void} request of this page to the server
   */
  constructor(place, opener, request) {
    this.place = place;
    this.opener = opener;
    const part = (/** @type {string} */ name) => find(`calibration-${name}`);
    this.progress = find("calibration-progress", HTMLProgressElement);
    this.stage = part("stage"), this.survey = part("survey"), this.learned = part("learned");
    this.gates = part("gates"), this.comparison = part("comparison"), this.force = part("force");
    const button = (/** @type {string} */ name) => find(`calibration-${name}`, HTMLButtonElement);
    this.buttons = {calibrate: button("calibrate"), cancel: button("cancel"), apply: button("apply"), rollback: button("rollback")};
    for (const [name, button] of Object.entries(this.buttons)) button.onclick = () => { request(name); button.blur(); };
    part("close").onclick = () => { place.hidden = true; };
    opener.onclick = () => { place.hidden = !place.hidden; opener.blur(); };
    /** @type {CardText | null} */
    this.card = null;
    this.gatesShown = "";
  }

  /** Shows what has changed. @param {import("./model.js").Texts} texts of the model */
  show({calibration: card, calibrator, sharing}) {
    this.opener.hidden = !card;
    if (!card) return;
    if (card !== this.card) this.#build(card);
    const runs = card.stage === "calibrating", ready = Boolean(card.survey) && !["surveying", "calibrating", "comparing"].includes(card.stage);
    this.progress.hidden = !runs;
    this.progress.value = calibrator?.progress ?? 0;
    this.buttons.calibrate.disabled = !ready;
    this.buttons.cancel.hidden = !runs;
    this.buttons.apply.disabled = !card.version || !calibrator || calibrator.in_force === card.version;
    this.buttons.rollback.disabled = !calibrator?.in_force;
    const version = (/** @type {number} */ number) => number ? `posterior ${number}` : "the vehicle file";
    this.force.textContent = calibrator ? `In force: ${version(calibrator.in_force)}`
      + (sharing ? `; shared control goes by ${version(sharing.posterior)}.` : ".") : "";
    const gates = card.version ? calibrator?.gates ?? [] : [], words = JSON.stringify(gates);
    if (words !== this.gatesShown) {
      this.gatesShown = words;
      this.gates.replaceChildren(...gates.map(([name, passed, reason]) =>
        make("li", {className: passed ? "" : "refused", textContent: `${passed ? "passes" : "REFUSED"}: ${name}, ${reason}`})));
    }
  }

  /** @param {CardText} card */
  #build(card) {
    if (card.bag !== this.card?.bag) this.place.hidden = false;
    this.card = card;
    this.place.dataset.stage = card.stage;
    this.stage.textContent = `${STAGES[card.stage] ?? ""} ${card.text ?? ""}`;
    const {survey, learned, comparison} = card;
    this.survey.replaceChildren(...!survey || learned ? [] : [
      make("table", {}, ...Object.entries(survey.expected).map(([name, share]) => make("tr", {},
        make("th", {textContent: name}), make("td", {}, make("meter", {max: 1, value: 1 - share})),
        make("td", {textContent: `${survey.known[name]}: width ${short(share)} of the prior's`})))),
      ...survey.missing.map(text => make("p", {textContent: text})),
      make("details", {}, make("summary", {textContent: "why this recipe"}), ...survey.reasons.map(text => make("p", {textContent: text})))]);
    this.learned.replaceChildren(...(learned ?? []).map(row => make("div", {className: "learned"},
      make("span", {textContent: `${row.name}: ${short(row.posterior[1])} ${row.unit} (${short(row.posterior[0])} to ${short(row.posterior[2])}),`
        + ` before ${short(row.prior[1])} (${short(row.prior[0])} to ${short(row.prior[2])})`}), intervals(row))));
    this.comparison.replaceChildren();
    if (!comparison) return;
    const errors = Object.entries(comparison.errors).map(([name, [before, after]]) =>
      `${name} ${short(before)} to ${short(after)} ${UNITS[name] ?? ""}`);
    this.comparison.append(make("p", {textContent: `RMSE before and after, ${comparison.split}: ${errors.join("; ")}`}));
    for (const [name, curves] of Object.entries(comparison.channels)) this.#chart(name, curves);
  }

  /** @param {string} name @param {Record<string, number[]>} curves */
  #chart(name, curves) {
    /** @param {string} label @param {string} stroke @param {number[]} dash */
    const line = (label, stroke, dash = []) => ({label, stroke, dash, width: label === "measured" ? 3 : 1.5, points: {show: false}});
    const axis = {stroke: "#a7b0ba", grid: {stroke: "#2f363d"}};
    new uPlot({
      title: `${name} [${UNITS[name] ?? ""}]`, width: 460, height: 170, cursor: {show: false}, legend: {live: false},
      scales: {x: {time: false}}, axes: [{...axis, size: 28}, {...axis, size: 52}],
      series: [{}, line("measured", MEASURED), line("before", BEFORE, [6, 4]), line("after", AFTER), line("90 %", BAND), line("", BAND)],
      bands: [{series: [5, 4], fill: BAND}],
    }, /** @type {uPlot.AlignedData} */ (["time", "measured", "before", "after", "lower", "upper"].map(key => curves[key])), this.comparison);
  }
}

/** Draws the 94 % intervals of prior and posterior on a common axis. @param {import("./model.js").Learned} learned */
function intervals({prior, posterior}) {
  const canvas = make("canvas", {width: 440, height: 22}), c = context2d(canvas);
  const least = Math.min(prior[0], posterior[0]), most = Math.max(prior[2], posterior[2]);
  const x = (/** @type {number} */ value) => 4 + (canvas.width - 8) * (value - least) / (most - least || 1);
  for (const {row, quantiles: [lower, middle, upper], colour} of [{row: 3, quantiles: prior, colour: PRIOR}, {row: 13, quantiles: posterior, colour: AFTER}]) {
    c.fillStyle = colour;
    c.fillRect(x(lower), row + 2, Math.max(2, x(upper) - x(lower)), 3);
    c.fillRect(x(middle) - 2, row, 4, 7);
  }
  return canvas;
}
