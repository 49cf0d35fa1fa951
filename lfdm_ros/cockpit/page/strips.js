// Strips of the last 20 s, by uPlot, with fixed windows; this browser stores the selection.

import {make} from "./elements.js";
import {keep, recall} from "./storage.js";
import uPlot from "./vendor/uPlot.esm.js";

const WINDOW = 20, PERIOD = 66;  // s; ms between two drawings
const MAX_SAMPLES = 2500;
const OPERATOR = "#e69f00", AUTONOMY = "#56b4e9", SENT = "#ffffff", ALARM = "#d55e00", WELL = "#009e73";
const BACK = 0.5;  // s: a sample that much earlier than the last is due to a clock set back
const KEPT = "lfdm strips";  // in this browser's storage
/** Colours and dashes of curves with variable names, by index. @type {[string, number[]][]} */
const STYLES = [[ALARM, []], [AUTONOMY, [6, 4]], [OPERATOR, [2, 3]], [SENT, []], [WELL, [8, 3, 2, 3]], [ALARM, [2, 3]]];

/**
 * @typedef {[number[], ...(number | null)[][]]} Data times of the samples, then the curves
 * @typedef {{label: string, colour: string, dash?: number[], part?: "edge" | "area"}} Curve part: an edge of the interval of the curve before,
 *   or an area down from 0; neither is in the legend
 * @typedef {{title: string, range: [number, number], curves: Curve[], ghosts?: Curve[], hidden?: boolean}} Kind range: at least
 */

const GHOST = [2, 5];
/** @type {Curve[]} */
const DRIVERS = [{label: "operator", colour: OPERATOR, dash: [6, 4]}, {label: "autonomy", colour: AUTONOMY, dash: [2, 3]}, {label: "sent", colour: SENT}];
/** ghosts: the same of a second recording. @type {Record<string, Kind>} */
const KINDS = {
  speed: {title: "speed", range: [0, 10], curves: [{label: "speed", colour: SENT}], ghosts: [{label: "ghost", colour: SENT, dash: GHOST}]},
  steering: {title: "steering, + left", range: [-1, 1], curves: DRIVERS, ghosts: [{label: "sent, ghost", colour: SENT, dash: GHOST}]},
  pedals: {title: "throttle; brake as area below 0", range: [-1, 1], curves: [...DRIVERS, ...DRIVERS.map(curve => ({...curve, part: /** @type {const} */ ("area")}))], hidden: true},
  k: {title: "k (0 operator, 1 autonomy), threat", range: [0, 1], curves: [{label: "k", colour: AUTONOMY}, {label: "threat", colour: ALARM, dash: [6, 4]}],
    ghosts: [{label: "k, ghost", colour: AUTONOMY, dash: GHOST}, {label: "threat, ghost", colour: ALARM, dash: GHOST}]},
  threats: {title: "threats by component", range: [0, 1], curves: [], hidden: true},
  risks: {title: "risks with 95 % intervals, %", range: [0, 5], curves: [], hidden: true},
  sideslip: {title: "sideslip, deg", range: [-5, 5], curves: [{label: "sideslip", colour: SENT}], hidden: true},
  cycle: {title: "controller's cycle, ms", range: [0, 50], curves: [{label: "cycle", colour: SENT}], hidden: true},
};

/** Returns the names of the selected strips. */
function chosen() {
  const names = recall(KEPT);
  return Array.isArray(names) ? names : Object.keys(KINDS).filter(name => !KINDS[name].hidden);
}

/** One of the strips. Without a place on the page it keeps samples only. */
class Strip {
  /** @param {Kind} kind */
  constructor(kind) {
    this.kind = kind;
    this.curves = kind.curves;
    /** @type {Curve[]} */
    this.ghosts = [];
    this.place = make("div");
    this.data = this.#empty();
    /** @type {uPlot | null} */
    this.chart = null;
  }

  /** @returns {Data} */
  #empty() {
    return [[], ...[...this.curves, ...this.ghosts].map(() => [])];
  }

  /** Names the curves anew. @param {Curve[]} curves */
  rename(curves) {
    this.curves = curves;
    this.data = this.#empty();
    if (this.chart) this.show(true);
  }

  /** @param {boolean} wanted */
  show(wanted) {
    this.chart?.destroy();
    const curves = [...this.curves, ...this.ghosts], {range: [least, most]} = this.kind, axis = {stroke: "#a7b0ba", grid: {stroke: "#2f363d"}};
    const more = this.ghosts.length && this.curves.length === 1 ? ", dotted: ghost" : "";  // it has no legend
    this.chart = !wanted ? null : new uPlot({
      title: this.kind.title + more, width: this.place.parentElement?.clientWidth || 330, height: 120, cursor: {show: false},
      legend: {show: this.curves.length > 1, live: false},
      scales: {x: {time: false, range: (_, __, max) => [(max ?? 0) - WINDOW, max ?? 0]},
        y: {range: (_, min, max) => [Math.min(least, min ?? 0), Math.max(most, 1.05 * (max ?? 0))]}},
      axes: [{...axis, size: 28}, {...axis, size: 40}],
      // Samples of two recordings alternate.
      series: [{}, ...curves.map(({label, colour, dash, part}) => ({label, stroke: colour, dash, width: part ? 1 : 2, points: {show: false},
        class: part ?? "curve", fill: part === "area" ? `${colour}40` : undefined, spanGaps: this.ghosts.length > 0}))],
      bands: curves.flatMap(({colour, part}, i) => part === "edge" && curves[i + 1]?.part === "edge"
        ? [{series: /** @type {[number, number]} */ ([i + 2, i + 1]), fill: `${colour}40`}] : []),
    }, this.data, this.place);
  }

  /** Adds samples of curves at a time, in the order of time. @param {number} time @param {(number | null)[]} values @param {boolean} ghost */
  add(time, values, ghost) {
    if (ghost && !this.ghosts.length) {
      this.ghosts = this.kind.ghosts ?? [];
      for (const _ of this.ghosts) this.data.push(this.data[0].map(() => null));
      if (this.chart) this.show(true);
    }
    const [times, ...curves] = this.data, first = ghost ? this.curves.length : 0;
    if (times.length && time < times[times.length - 1] - BACK) this.data.forEach(one => one.splice(0));
    let at = times.length;
    while (at && times[at - 1] >= time) at -= 1;
    if (times[at] !== time) {
      times.splice(at, 0, time);
      for (const one of curves) one.splice(at, 0, null);
    }
    values.forEach((value, i) => { curves[first + i][at] = Number.isFinite(value) ? value : null; });
    if (times.length > MAX_SAMPLES) this.data.forEach(one => one.splice(0, one.length - MAX_SAMPLES + 500));
  }
}

export class Strips {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.drawnAt = 0;
    this.strips = Object.fromEntries(Object.entries(KINDS).map(([name, kind]) => [name, new Strip(kind)]));
    const wanted = chosen(), boxes = Object.keys(KINDS).map(name => make("input", {type: "checkbox", name, checked: wanted.includes(name)}));
    for (const box of boxes) {
      box.onchange = () => {
        this.strips[box.name].show(box.checked);
        box.blur();  // keys drive again
        keep(KEPT, boxes.filter(one => one.checked).map(one => one.name));
      };
    }
    place.append(make("details", {id: "strips-shown"}, make("summary", {textContent: "strips"}), ...boxes.map(box => make("label", {}, box, box.name))),
      ...Object.values(this.strips).map(strip => strip.place));
    for (const name of wanted) this.strips[name]?.show(true);
  }

  /**
   * Adds the samples of a message that the model has stored.
   * @param {string} kind of the message
   * @param {import("./model.js").Model} model
   * @param {number} unit of speeds, by m/s
   */
  take(kind, model, unit) {
    const {state, sharing, other, otherSharing, texts} = model;
    if (kind === "state" && state) {
      this.#add("speed", state.stamp, [state.vx * unit]);
      this.#add("sideslip", state.stamp, [model.sideslip]);
    } else if (kind === "sharing values" && sharing) {
      const {stamp, k, threat, operator, autonomy, applied} = sharing, commands = [operator, autonomy, applied];
      this.#add("steering", stamp, commands.map(([steering]) => steering));
      this.#add("pedals", stamp, [...commands.map(([, throttle]) => throttle), ...commands.map(([, , brake]) => -brake)]);
      this.#add("k", stamp, [k, threat]);
    } else if (kind === "other state" && other) this.#add("speed", other.stamp, [other.vx * unit], true);
    else if (kind === "other sharing" && otherSharing) {
      this.#add("steering", otherSharing.stamp, [otherSharing.applied[0]], true);
      this.#add("k", otherSharing.stamp, [otherSharing.k, otherSharing.threat], true);
    } else if (kind === "sharing" && texts.sharing && state) {
      const {threats, risks} = texts.sharing;
      this.#addNamed("threats", state.stamp, threats);
      this.#addNamed("risks", state.stamp, risks.map(([name, ...shares]) => [name, ...shares.map(share => share === null ? null : 100 * share)]));
    } else if (kind === "controller" && texts.controller && state) this.#add("cycle", state.stamp, [1000 * (texts.controller.cycle_time ?? NaN)]);
  }

  /** @param {string} name @param {number} time @param {(number | null)[]} values */
  #add(name, time, values, ghost = false) {
    this.strips[name].add(time, values, ghost);
  }

  /**
   * Adds samples of curves that the message names, each with the edges of its interval where it has one.
   * @param {string} name of the strip
   * @param {number} time
   * @param {[string, ...(number | null)[]][]} rows name, value, edges
   */
  #addNamed(name, time, rows) {
    const strip = this.strips[name], shown = rows.slice(0, STYLES.length), labels = shown.map(([label]) => label);
    if (labels.join() !== strip.curves.filter(({part}) => !part).map(({label}) => label).join()) {
      strip.rename(shown.flatMap(([label, , ...edges], i) => {
        const [colour, dash] = STYLES[i];
        return [{label, colour, dash}, ...edges.map(() => ({label: "", colour, part: /** @type {const} */ ("edge")}))];
      }));
    }
    this.#add(name, time, shown.flatMap(([, ...values]) => values));
  }

  /** @param {number} now ms */
  draw(now) {
    if (now - this.drawnAt < PERIOD) return;
    this.drawnAt = now;
    for (const {chart, data} of Object.values(this.strips)) chart?.setData(data);
  }
}
